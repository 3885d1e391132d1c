"""The merged view of sorted runs, computed by hash groups: the proof that a merge changed no row that a reader sees."""
