"""The planted bugs of each assignment, one module each, in a list `FAULTS`."""
