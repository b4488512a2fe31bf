"""The loop, its optimisers, checkpoints and limits."""
