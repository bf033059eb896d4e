"""Functions of the catalog's database `sys` in statements: where they are called, and what stands in their place.

Spec: docs/sql/functions.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from bucketlake.format.data.descriptor import of_files
from bucketlake.spark.write.bucket_functions import KINDS, ensure_functions
from bucketlake.spark.write.descriptor_functions import DESCRIPTORS, ensure_descriptor_functions
from bucketlake.sql.text.tokens import Token, tokenize

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake


def called(lake: Lake, tokens: list[Token], at: int, name: str) -> tuple[int, tuple[str, ...]] | None:
    """Where a call's name begins and what qualifies it, if this token ends the name of one: `[[catalog.]sys.]name(`."""
    token = tokens[at]
    opens = at + 1 < len(tokens) and tokens[at + 1].value == "(" and tokens[at + 1].kind == "sign"
    if token.kind not in ("word", "quoted") or token.value.lower() != name or not opens:
        return None
    parts = [at]
    while parts[0] >= 2 and tokens[parts[0] - 1].value == "." and tokens[parts[0] - 2].kind in ("word", "quoted"):
        parts.insert(0, parts[0] - 2)
    qualifiers = tuple(tokens[part].value.lower() for part in parts[:-1])
    return (parts[0], qualifiers) if not qualifiers or is_sys(lake, qualifiers) else None


def is_sys(lake: Lake, parts: tuple[str, ...]) -> bool:
    """Whether a name, in lower case, is that of the lake's database `sys`."""
    return parts[-1] == "sys" and (len(parts) == 1 or (len(parts) == 2 and parts[0] in lake.catalog_names))


NAMES = (*KINDS, *DESCRIPTORS)
PATH = "path_to_descriptor"


def function_pieces(lake: Lake, statement: str) -> list[tuple[int, int, str]]:
    """The functions that a statement calls by `sys`, with the names that the session knows them by."""
    if not any(word in statement.lower() for word in ("bucket", "descriptor")):
        return []
    tokens = tokenize(statement)
    found, names = [], set()
    for at in range(len(tokens)):
        for name in NAMES:
            call = called(lake, tokens, at, name)
            if call is None or not call[1]:
                continue
            start, known = tokens[call[0]].start, _known(statement, tokens, at) if name == PATH else None
            if known is not None:
                found.append((start, tokens[at + 3].end, known))
                continue
            names.add(name)
            found.append((start, tokens[at].end, f"`sys.{name}`"))
    if names:
        ensure_functions(lake.spark, frozenset(names & KINDS.keys()))
        ensure_descriptor_functions(lake.spark, frozenset(names & DESCRIPTORS.keys()))
    return found


def _known(statement: str, tokens: list[Token], at: int) -> str | None:
    """The descriptor of a path that is a plain literal: functions in Python are no values of an inline table."""
    inner = tokens[at + 2 : at + 4]
    if len(inner) < 2 or inner[0].kind != "string" or inner[1].value != ")" or "\\" in inner[0].value:
        return None
    if statement[inner[0].start : inner[0].end] != f"'{inner[0].value}'":
        return None
    return f"X'{of_files(pa.array([inner[0].value]))[0].as_py().hex().upper()}'"
