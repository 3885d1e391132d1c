"""Frozen values that every layer speaks of."""
