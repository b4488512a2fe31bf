"""Runs in other programs' formats, and engines that decode in place of PyTorch."""
