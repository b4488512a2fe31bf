"""Speed compared with other toolkits, baselines and studies; run as `python -m benchmarks.training_speed`."""
