"""Options of a catalog, as `bucketlake.open` and `connect` take them: which have a meaning here, which are harmless,
and which would have tables lie or be named elsewhere and are refused. `metastore` decides: filesystem, jdbc, rest.

Spec: docs/spec/catalog.md#options, docs/catalogs.md
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from bucketlake.errors import UnsupportedError
from bucketlake.options.options import near_key, option_text, validate
from bucketlake.traces import warn

TABLE_DEFAULT = "table-default."

_BY_FOLDER = "open the warehouse by its folder, without a metastore"
_NO_LOCK = "leave it out: a commit here is one conditional put, which needs no lock"
_SERVER = "leave it out: the server alone decides about commits"
_NO_METASTORE = (
    "use filesystem, jdbc (names in SQLite, PostgreSQL or MySQL) or rest (a REST catalog's server): docs/catalogs.md"
)
_NO_HIVE = (
    "open the warehouse by its folder, or use metastore=jdbc or rest: no client for Python of a Hive metastore is "
    "maintained that locks as Paimon does; docs/catalogs.md"
)
_FLAG = (("true", "false"), "write true or false")
CURRENT = ("defaultDatabase", "default-database")  # Spark's catalogs' option, and Flink's
_NAMED = "name tables as database.table, or connect by Spark, where it is the current database"
# key: (values that change nothing, what to do instead of others)
_REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "case-sensitive": (("true",), "leave it out: names keep their case"),
    "catalog-options-table.enabled": (("true", "false"), "write true or false"),
    **dict.fromkeys(CURRENT, (("default",), _NAMED)),
    "disable-create-table-in-default-db": (("false",), "leave it out"),
    "lock.enabled": (("false",), _NO_LOCK),
    "lock.type": ((), _NO_LOCK),
    "metastore": (("filesystem", "jdbc", "rest"), _NO_METASTORE),
    "resolving-file-io.enabled": (("false",), "leave it out: a table stays in the store that its warehouse is in"),
    "table.type": (("managed",), "leave it out: tables of a warehouse are managed"),
    "type": (("paimon", "bucketlake"), "leave it out"),
    "uri": ((), _BY_FOLDER),
}
# What a metastore takes, or refuses, other than the file system's catalog; None: any value.
_OF_METASTORE: dict[str, dict[str, tuple[tuple[str, ...], str] | None]] = {
    "jdbc": {
        "lock.enabled": _FLAG,
        "lock.type": (("jdbc",), "leave it out: the lock is a row of the catalog's database"),
        "sync-all-properties": _FLAG,
        "uri": None,
    },
    "rest": {
        "data-token.enabled": _FLAG,
        "lock.enabled": (("false",), _SERVER),
        "lock.type": ((), _SERVER),
        "token.provider": (("bear",), "leave it out, or set it to bear: requests signed for DLF are not supported"),
        "uri": None,
    },
}
_OF_REST = ("token", "token.provider", "data-token.enabled", "prefix")
# Caches and pools, and what other catalogs, engines and file systems read.
_KEPT = (
    *("cache-enabled", "cache.deletion-vectors.max-num", "cache.expire-after-access", "cache.expire-after-write"),
    *("cache.manifest.max-memory", "cache.manifest.small-file-memory", "cache.manifest.small-file-threshold"),
    *("cache.manifest.soft-values", "cache.partition.max-num", "cache.snapshot.max-num-per-table", "client-pool-size"),
    *("file-io.allow-cache", "format-table.enabled", "local-cache.block-size", "local-cache.dir"),
    *("local-cache.enabled", "local-cache.max-size", "local-cache.whitelist", "lock-acquire-timeout"),
    *("lock-check-max-sleep", "sync-all-properties", "alter-table-cascade", "client-pool-cache.keys"),
    *("client-pool-cache.eviction-interval-ms", "hadoop-conf-dir", "hive-conf-dir", "hive.skip-update-stats"),
    *("location-in-properties", "metastore.client.class", "catalog-key", "lock-key-max-length"),
    *("lineage-use-catalog-key-as-identifier", "catalog.create-underlying-session-catalog", "v1Function.enabled"),
)
_KEPT_PREFIXES = (
    "oss.",
    "obs.",
    "cosn.",
    "hadoop.",
    "dfs.",
    "security.",
    "jindo.",
    "hive.",
    "jdbc.",
    "dlf.",
    "header.",
)
_CONNECTION = ("jdbc.user", "jdbc.password", "token.provider", "data-token.enabled")
_STORAGE = ("s3.endpoint", "s3.access-key", "s3.secret-key", "s3.session-token", "s3.region", "s3.path.style.access")
ALLOWED_EXTERNAL = "allowed-external-paths"  # an option of catalogs and reads, never of a table
CATALOG_KEYS = ("warehouse", ALLOWED_EXTERNAL, *_REFUSED, *_KEPT, *_OF_REST, *_CONNECTION[:2])
_OF_CONNECT = ("spark", "options", "verbose", "settings", "current")  # arguments of `connect` and `attach`
_SPELLINGS = {key.replace(".", "_").replace("-", "_").lower(): key for key in (*CATALOG_KEYS, *_STORAGE, *_CONNECTION)}


def catalog_options(given: Mapping[str, Any], storage_prefixes: tuple[str, ...]) -> dict[str, str]:
    """The options as text by their true keys; Python names become the key that they spell (`lock_enabled`).

    Raises: UnsupportedError naming what would change where tables lie, how they are named or who locks them, or a
    refused `table-default.` option; InvalidError for a malformed one. Unknown keys are warned of.
    """
    meant = {_true_key(key): value for key, value in given.items() if value is not None}
    metastore = metastore_of(meant)
    known = [key for key in CATALOG_KEYS if metastore == "rest" or key not in _OF_REST]
    for key in meant:
        if key not in known and not key.startswith((TABLE_DEFAULT, *storage_prefixes, *_KEPT_PREFIXES)):
            warn(f"catalog option '{key}' is not known and has no effect{_advice(key)}")
    options = {key: option_text(value) for key, value in meant.items()}
    rules = {**_REFUSED, **_OF_METASTORE.get(metastore, {})}
    for key, text in options.items():
        harmless, remedy = rules.get(key) or (None, "")
        if harmless is not None and text.strip().lower() not in harmless:
            hive = key == "metastore" and text.strip().lower() == "hive"
            remedy = _NO_HIVE if hive else remedy
            raise UnsupportedError(f"catalog option '{key}' is not supported", option=key, remedy=remedy)
        if metastore == "rest" and key.startswith("dlf."):
            raise UnsupportedError(
                "requests signed for DLF are not supported", option=key, remedy="use a server that takes bearer tokens"
            )
    for text in validate(table_defaults(options)):
        warn(f"{TABLE_DEFAULT}: {text}")
    return options


def current_database(given: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The database that names without one mean at first, None where nothing is said, and the options without it."""
    meant = {_true_key(key): value for key, value in given.items()}
    said = [str(meant[key]) for key in CURRENT if meant.get(key) is not None]
    return next(iter(said), None), {key: value for key, value in given.items() if _true_key(key) not in CURRENT}


def metastore_of(options: Mapping[str, Any]) -> str:
    """What holds the names of databases and tables: filesystem, jdbc, rest."""
    return str(options.get("metastore") or "filesystem").strip().lower()


def without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that may travel to other processes: all but those of the connection to a metastore."""
    return {
        key: value
        for key, value in options.items()
        if not (_true_key(key).startswith(("jdbc.", "header.", "dlf.")) or _true_key(key) in ("uri", "token"))
    }


def table_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """The options that new tables get, of a catalog's."""
    return {key[len(TABLE_DEFAULT) :]: text for key, text in options.items() if key.startswith(TABLE_DEFAULT)}


def _true_key(key: str) -> str:
    return key if "." in key or "-" in key else _SPELLINGS.get(key.lower(), key)


def _advice(key: str) -> str:
    known = {**_SPELLINGS, **{name: name for name in _OF_CONNECT}}
    near = get_close_matches(key.replace(".", "_").replace("-", "_").lower(), known, n=1, cutoff=0.75)
    if near:
        return f"; did you mean '{known[near[0]]}'?"
    table = near_key(key)
    return f"; for new tables, write '{TABLE_DEFAULT}{table}'" if table else ""
