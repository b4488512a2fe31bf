"""The HTML pages of runs and comparisons."""
