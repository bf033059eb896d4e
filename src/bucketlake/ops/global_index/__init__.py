"""Global indexes of tables whose columns lie in several files: built, and dropped."""
