"""References of assignment study."""
