"""Segment tables: loads and their merges as Parquet files, named by versioned status files."""
