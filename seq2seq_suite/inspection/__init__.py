"""How a model came to its outputs: attention and decoding steps."""
