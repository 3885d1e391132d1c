"""Parquet: footers, pages, and files made by decoding or by copying pages."""
