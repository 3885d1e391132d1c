"""Tables of JSON lines: an example of a family, as short as one can honestly be."""
