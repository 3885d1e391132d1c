"""Compressions and framings that PyArrow alone does not read."""
