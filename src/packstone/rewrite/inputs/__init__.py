"""Files that users load, read in pieces and converted to the types of a table."""
