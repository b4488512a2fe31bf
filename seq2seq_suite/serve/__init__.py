"""The live page: finished runs behind a small local server, to type, speak or drop a picture into."""
