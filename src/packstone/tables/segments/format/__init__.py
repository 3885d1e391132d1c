"""The segment table format: status, segment and index files."""
