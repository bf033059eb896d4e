"""COPY INTO: files into a table, and rows out into files."""
