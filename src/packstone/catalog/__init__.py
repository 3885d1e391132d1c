"""Tables by name: the metastore's database, the locations and the file formats it records."""
