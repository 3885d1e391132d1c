"""Read the files that users load into segment tables, and convert their rows to the table's types."""
