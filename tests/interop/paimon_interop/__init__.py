"""What the interop tests share; ``worker`` runs on pypaimon's Python, everything else on Packstone's own."""
