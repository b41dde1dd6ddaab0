"""The load engine: schedule, send, stamp, parse, record, summarise."""
