"""The directory that a run writes: its files, records, weights, lock, and the processes that share it."""
