"""The embedded parts (Valkey, engine, web, workers, beat) under one supervisor, and the demo run."""
