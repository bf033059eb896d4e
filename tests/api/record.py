"""The public API as lines of text, read from the source by griffe: what `bucketlake` and `bucketlake.events` export,
with the methods, attributes and parameters that callers may rely on.

    python -m tests.api.record     writes tests/api/public.txt
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).parent / "public.txt"
MODULES = ("bucketlake", "bucketlake.events")


def public_api() -> list[str]:
    """A line a name, sorted."""
    lines: set[str] = set()
    for name in MODULES:
        module = _module(name)
        for exported in sorted(_exports(module)):
            lines.update(_described(f"{name}.{exported}", _resolved(module, exported)))
    return sorted(lines)


@cache
def _module(name: str) -> Any:
    """A module of this package, its source read."""
    place = ROOT / "src" / name.replace(".", "/")
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return griffe.visit(name, filepath=path, code=path.read_text())


def _exports(module: Any) -> list[str]:
    found = module.members["__all__"].value
    return [str(item).strip("'\"") for item in found.elements]


def _resolved(module: Any, name: str) -> Any:
    """The object behind an exported name, its module loaded where it is defined elsewhere."""
    item = module.members[name]
    while item.is_alias:
        where, _, last = item.target_path.rpartition(".")
        item = _module(where).members[last]
    return item


def _described(path: str, item: Any) -> Iterator[str]:
    if item.is_function:
        yield f"{path}{_signature(item)}"
        return
    if not item.is_class:
        yield path
        return
    yield f"{path}({', '.join(_bases(item))})" if _bases(item) else path
    for name, member in _members(item).items():
        if name.startswith("_") and name not in ("__arrow_c_stream__", "__init__"):
            continue
        if member.is_function:
            yield f"{path}.{name}{_signature(member)}"
        elif member.is_attribute:
            yield f"{path}.{name}{'' if member.annotation is None else f': {member.annotation}'}"


def _bases(item: Any) -> list[str]:
    return [str(base).rpartition(".")[2] for base in item.bases]


def _members(item: Any) -> dict[str, Any]:
    """Own members over those of base classes of this package."""
    found: dict[str, Any] = {}
    for base in reversed(item.bases):
        name = str(base).partition("[")[0]
        if name in item.module.members:
            known = item.module.members[name]
            if not known.is_alias or known.target_path.startswith("bucketlake."):
                found.update(_members(_resolved(item.module, name)))
    found.update({name: member for name, member in item.members.items() if not member.is_alias})
    return found


def _signature(function: Any) -> str:
    """The parameters as callers see them: names, kinds, annotations, defaults, and what is returned."""
    parts, keyword_only = [], False
    for parameter in function.parameters:
        if parameter.name in ("self", "cls"):
            continue
        kind = parameter.kind.value
        if kind == "keyword-only" and not keyword_only:
            keyword_only = True
            if not any(part.startswith("*") for part in parts):
                parts.append("*")
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        text = f"{stars}{parameter.name}"
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and not stars:
            text += f" = {parameter.default}"
        parts.append(text)
    returns = "" if function.returns is None else f" -> {function.returns}"
    return f"({', '.join(parts)}){returns}"


if __name__ == "__main__":
    RECORD.write_text("\n".join(public_api()) + "\n")
    print(f"wrote {RECORD.relative_to(ROOT)}")
