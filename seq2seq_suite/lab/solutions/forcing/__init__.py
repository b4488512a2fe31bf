"""References of assignment forcing."""
