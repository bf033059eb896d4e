"""Table options: typed access, and what becomes of each."""
