"""Executor-side kernels on Arrow data: merge, concatenate, stitch, fingerprint."""
