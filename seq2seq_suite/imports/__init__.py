"""Pretrained encoder-decoders of other programs as runs: a family of models is a file and a row of `families`."""
