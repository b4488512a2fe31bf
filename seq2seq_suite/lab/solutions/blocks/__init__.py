"""References of assignment blocks."""
