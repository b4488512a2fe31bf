"""Fifteen minutes on a GPU: `python -m benchmarks.gpu prepare FOLDER` here, `run FOLDER` there."""
