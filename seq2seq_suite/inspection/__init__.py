"""How a model came to its outputs: attention, decoding steps, patterns of heads."""
