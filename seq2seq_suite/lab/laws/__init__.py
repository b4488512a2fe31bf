"""The laws of each assignment, one module each."""
