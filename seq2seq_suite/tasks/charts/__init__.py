"""Charts that tasks have of their own, as plain data for a page."""
