"""Plain facts about a table, for pictures, pages and commands: bounded, from metadata alone, nothing is drawn."""
