"""Peers as fixtures for the whole suite: one process of each."""

pytest_plugins = ["tests.peers.fixtures"]
