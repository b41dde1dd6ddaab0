"""Cron lines that start runs."""
