"""References of assignment parallel."""
