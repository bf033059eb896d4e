"""Predicates: made from SQL text, evaluated over Arrow, used to prune files, partitions and buckets.

Spec: docs/spec/types.md#predicates
"""
