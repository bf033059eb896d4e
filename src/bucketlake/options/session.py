"""Options that a session sets: `spark.paimon.<key>` for all tables, `spark.paimon.<catalog>.<db>.<table>.<key>` for a
table.

Spec: docs/sql/insert.md#options
"""

from __future__ import annotations

from collections.abc import Mapping

from bucketlake.errors import UnsupportedError
from bucketlake.types.instants import LEGACY_TIMESTAMPS

CATALOG_NAMES = ("bucketlake", "paimon")
PREFIXES = ("spark.paimon.", "spark.bucketlake.")


def options_of(
    settings: Mapping[str, str], catalogs: tuple[str, ...], database: str, tables: tuple[str, ...]
) -> dict[str, str]:
    """The options that settings hold for a table of one of these names, in a catalog of one of these (lower case); `*`
    matches any, and those of a table go before those for all. UnsupportedError for one that only all tables together
    have."""
    general: dict[str, str] = {}
    special: dict[str, str] = {}
    for key, value in settings.items():
        prefix = next((p for p in PREFIXES if key.startswith(p)), None)
        if prefix is None:
            continue
        own = key[len(prefix) :]
        catalog, _, rest = own.partition(".")
        if catalog != "*" and catalog.lower() not in catalogs:
            general[own] = value
            continue
        for pattern in (f"{d}.{t}." for d in (database, "*") for t in (*tables, "*")):
            if rest.startswith(pattern) and len(rest) > len(pattern):
                special[rest[len(pattern) :]] = value
    if LEGACY_TIMESTAMPS in special:
        raise UnsupportedError(
            f"option '{LEGACY_TIMESTAMPS}' of one table",
            option=LEGACY_TIMESTAMPS,
            remedy=f"SET spark.paimon.{LEGACY_TIMESTAMPS} for all tables, or give it to a read",
        )
    return {**general, **special}
