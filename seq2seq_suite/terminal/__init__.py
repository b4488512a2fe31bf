"""Progress and tables on a terminal."""
