"""Text files, plain and compressed, put behind each other."""
