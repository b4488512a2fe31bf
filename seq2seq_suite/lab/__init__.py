"""A course of assignments on the core: what students write, the laws that it must obey, and grading."""
