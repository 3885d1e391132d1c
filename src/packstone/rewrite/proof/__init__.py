"""Fingerprints and digests of rows: the proof that none was lost, doubled or changed."""
