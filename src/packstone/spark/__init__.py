"""Tasks, scans and loads on Spark. The only package that imports pyspark."""
