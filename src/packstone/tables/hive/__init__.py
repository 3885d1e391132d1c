"""Hive directories: partitions of plain files, merged in place with a journal and a backup."""
