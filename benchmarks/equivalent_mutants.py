"""Mutants that change nothing anyone can see.

By name the change, so that an entry ends with the code it is about, and the reason.
"""

EQUIVALENT: dict[str, tuple[str, str]] = {
}
