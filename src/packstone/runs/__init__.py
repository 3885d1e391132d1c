"""One run on any table: its process, what it owns, its tasks and where they run, its clock, its signals.

The layer below the tables. It owns the clock, ids and randomness; everything above takes them as arguments.
"""
