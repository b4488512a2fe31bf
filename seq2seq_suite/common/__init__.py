"""What every part may import: types, errors, trees, texts, files, code of users."""
