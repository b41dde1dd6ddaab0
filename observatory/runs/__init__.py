"""One execution of a benchmark: its states, its lease, its process, its results."""
