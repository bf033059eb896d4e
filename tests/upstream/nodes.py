"""What every reader of a syntax tree asks of its nodes."""

from __future__ import annotations

from tree_sitter import Node


def text(node: Node) -> str:
    return (node.text or b"").decode()
