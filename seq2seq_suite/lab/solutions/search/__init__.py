"""References of assignment search."""
