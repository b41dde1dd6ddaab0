"""A reverse proxy before engines: spreads requests over replicas, or chooses between a small and a large model."""
