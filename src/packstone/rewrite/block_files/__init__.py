"""Files made of a header, a sync marker, and blocks or records that can be copied as they are."""
