"""Export of runs to other programs' formats, and engines that decode instead of PyTorch."""
