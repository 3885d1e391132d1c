"""Specs as Spark jobs. The only package that imports pyspark."""
