"""Data files of a table format as rows: Parquet, ORC and Avro, read and written through FileIO."""
