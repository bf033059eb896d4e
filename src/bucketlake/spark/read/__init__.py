"""From a plan to a DataFrame."""
