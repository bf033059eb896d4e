"""Paimon's data types as plain values, and how they meet Arrow, JSON and field ids."""
