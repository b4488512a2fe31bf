"""References of assignment losses."""
