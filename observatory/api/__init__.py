"""REST: /api/v1 with bearer tokens."""
