"""Several runs: sweeps, studies, jobs of a cluster, comparisons."""
