"""The Hive metastore: what it says of tables and partitions, from its database."""
