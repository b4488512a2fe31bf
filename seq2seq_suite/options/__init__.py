"""The sections of a configuration that are not a task's own, and what sections are made of."""
