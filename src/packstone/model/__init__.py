"""Frozen values that every layer uses."""
