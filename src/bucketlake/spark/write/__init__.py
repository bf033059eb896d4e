"""From a DataFrame to commit messages."""
