"""Language models of training texts, which guide a search or judge a target."""
