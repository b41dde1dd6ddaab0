"""Differences between runs: deltas, intervals, verdicts, refusals. No models."""
