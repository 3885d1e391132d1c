"""Read and write the rows of data files (Parquet, ORC and Avro) through FileIO."""
