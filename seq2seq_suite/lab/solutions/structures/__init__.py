"""References of assignment structures."""
