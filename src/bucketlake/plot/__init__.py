"""Pictures of a table by matplotlib: the same figures as the page, of the same facts."""
