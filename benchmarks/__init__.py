"""Speed measured beside other toolkits; run as `python -m benchmarks.training_speed`."""
