"""How autoregressive outputs are searched for: steps, greedy and beam search, sampling, constraints on outputs."""
