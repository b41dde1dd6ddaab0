"""CSV and Parquet out of runs."""
