"""One run on any table: its process, its claims, its tasks and their engine, its clock, its signals.

The layer below the tables. It owns the clock, ids and randomness; everything above takes them as arguments.
"""
