"""References of assignment speech."""
