"""Merging sorted runs in which a key has many records: the kernel of merge trees."""
