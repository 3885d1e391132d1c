"""The loop observe → plan → run → verify → commit → record; owns the clock, the ids and the configuration."""
