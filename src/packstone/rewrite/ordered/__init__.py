"""Sorting, and merging sorted files in which all rows are kept: the kernel of segment tables."""
