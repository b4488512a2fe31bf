"""The sections of a configuration that tasks share, and the base classes of sections."""
