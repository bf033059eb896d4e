"""`docs/rooms.md`: every room and module with the first sentence of its docstring. `python -m tests.docs.rooms` writes it."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "bucketlake"
PAGE = ROOT / "docs" / "rooms.md"
HEAD = """# Rooms and modules

Every module of `src/bucketlake` and what it is for, in the words of its docstring; `python -m tests.docs.rooms` writes this page.
The order of the rooms, and the way through them, are in `ARCHITECTURE.md`.
"""


def contract(path: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for folder in [PACKAGE, *sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)]:
        name = "bucketlake" if folder == PACKAGE else folder.relative_to(PACKAGE).as_posix()
        lines += [f"## `{name}/`", "", contract(folder / "__init__.py"), ""]
        modules = sorted(path for path in folder.glob("*.py") if path.stem != "__init__")
        if modules:
            lines += ["| module | |", "|---|---|"]
            lines += [f"| `{path.name}` | {contract(path)} |" for path in modules]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
