"""Queries: filters, and the scans that apply them."""
