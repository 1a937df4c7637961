"""Lines of logs: their positions, pages of lines, and the search."""
