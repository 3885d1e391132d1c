"""ORC: tails, statistics, and files made by copying stripes or by decoding."""
