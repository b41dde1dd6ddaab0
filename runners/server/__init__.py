"""The server's own account: its /metrics page, read beside the load and set against what the client saw."""
