"""Everything before the job starts: its files, its Python environment, its checkpoint."""
