"""Bytes <-> frozen dataclasses. No decisions, no listing: each module is one on-disk format, its grammar on top."""
