"""Names and positions of a table's history: tags, branches, rollbacks."""
