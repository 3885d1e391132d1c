"""The one filter language: parse, resolve, normalise, evaluate, prune."""
