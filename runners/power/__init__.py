"""Power and energy: sources that read instruments, a sampler process, and the ledger of a window."""
