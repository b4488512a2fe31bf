"""References of assignment norms."""
