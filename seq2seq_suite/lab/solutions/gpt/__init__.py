"""References of assignment gpt."""
