"""Merge the sorted runs of Paimon's merge trees."""
