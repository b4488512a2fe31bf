"""References of assignment positions."""
