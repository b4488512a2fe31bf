"""One Transformer core, many sequence-to-sequence tasks."""

__version__ = "0.1.0"
