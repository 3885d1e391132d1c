"""Reading a table through a filter: what a driver plans, and what executors do with a split of it."""
