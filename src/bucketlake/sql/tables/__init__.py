"""Statements about databases and tables."""
