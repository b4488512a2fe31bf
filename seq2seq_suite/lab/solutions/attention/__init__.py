"""Assignment 02."""
