"""Hooks of the site: links of the pages that lead out of docs/ into the repository become links to its sources."""

from __future__ import annotations

import re
from typing import Any

SOURCES = "https://github.com/bucketlake/bucketlake/blob/main/"
OUTSIDE = re.compile(r"\]\((?:\.\./)+((?:src|tests|benchmarks|examples)/[^)]*|[A-Z]+\.md[^)]*)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page's text with such links."""
    return OUTSIDE.sub(lambda found: f"]({SOURCES}{found[1]})", markdown)
