"""Where examples come from, and how they become batches."""
