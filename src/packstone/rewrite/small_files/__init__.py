"""Merge small files of a Hive directory: one kernel for each file format."""
