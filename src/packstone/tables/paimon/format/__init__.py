"""Paimon's metadata, read and written."""
