"""Finished models at work: opened, decoded, scored."""
