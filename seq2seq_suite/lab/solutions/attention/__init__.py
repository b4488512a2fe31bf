"""References of assignment attention."""
