"""The reference functions: a package for each assignment, a module for each part."""
