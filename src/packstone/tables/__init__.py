"""One folder per table family: its metadata, its files, its plan and its commit, without Spark."""
