"""How autoregressive outputs are searched for: steps, logit processors, greedy and beam search, sampling."""
