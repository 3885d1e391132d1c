"""Scans: plan the splits of a table, and read row groups and pages of its files."""
