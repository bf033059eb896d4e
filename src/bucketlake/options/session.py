"""Options that a session sets: `spark.paimon.<key>` for all tables, `spark.paimon.<catalog>.<db>.<table>.<key>` for a
table.

Spec: docs/sql/insert.md#options
"""

from __future__ import annotations

from collections.abc import Mapping

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.options.options import find_option, near_key
from bucketlake.types.instants import LEGACY_TIMESTAMPS

CATALOG_NAMES = ("bucketlake", "paimon")
PREFIXES = ("spark.paimon.", "spark.bucketlake.")


def options_of(
    settings: Mapping[str, str], catalogs: tuple[str, ...], database: str, tables: tuple[str, ...]
) -> dict[str, str]:
    """The options that settings hold for a table of one of these names, in a catalog of one of these (lower case); `*`
    matches any, and those of a table go before those for all. UnsupportedError for one that only all tables together
    have; InvalidError for one that looks like a slip, with the setting that holds it."""
    general: dict[str, str] = {}
    special: dict[str, str] = {}
    for key, value in settings.items():
        prefix = next((p for p in PREFIXES if key.startswith(p)), None)
        if prefix is None:
            continue
        own = key[len(prefix) :]
        catalog, _, rest = own.partition(".")
        if catalog != "*" and catalog.lower() not in catalogs:
            refuse_slip(own, key)
            general[own] = value
            continue
        for pattern in (f"{d}.{t}." for d in (database, "*") for t in (*tables, "*")):
            if rest.startswith(pattern) and len(rest) > len(pattern):
                option = rest[len(pattern) :]
                refuse_slip(option, key)
                special[option] = value
    if LEGACY_TIMESTAMPS in special:
        raise UnsupportedError(
            f"option '{LEGACY_TIMESTAMPS}' of one table",
            option=LEGACY_TIMESTAMPS,
            remedy=f"SET spark.paimon.{LEGACY_TIMESTAMPS} for all tables, or give it to a read",
        )
    return {**general, **special}


def refuse_slip(option: str, setting: str, remedy: str = "RESET {} takes it back") -> None:
    """InvalidError for an option that nobody knows and that looks like another, in a setting of the session: what
    reads or writes with it says nothing of options."""
    meant = None if find_option(option) is not None else near_key(option)
    if meant is not None:
        told = f"did you mean '{meant}'? {remedy.format(setting)}".strip()
        raise InvalidError("no such option", option=option, setting=setting, remedy=told)
