"""Pure decisions: what to merge, into what, and why. No I/O, no clock, no randomness."""
