"""Folders of data files that other programs wrote, made tables where they lie."""
