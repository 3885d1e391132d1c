"""Apache Paimon tables: their metadata read and written, planned and committed, without Spark and without Java."""
