"""Snapshots, manifests, and the statistics in them."""
