"""Merge the sorted files of segments."""
