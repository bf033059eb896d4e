"""How the database of a SQL catalog is reached, from the options `uri` and `jdbc.…` as Apache Paimon takes them.

    jdbc:sqlite:/path/catalog.db, jdbc:postgresql://host:5432/db, jdbc:mysql://host/db, jdbc:mariadb://host/db
    sqlite:///path/catalog.db, postgresql://…, mysql://…, mariadb://…

Properties that only tune a JVM's driver are left out; what decides who is connected to, as whom and how safely, is
honoured or refused by name.

Spec: docs/catalogs.md#sql
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from bucketlake.env.database import MYSQL, POSTGRESQL, SQLITE, Settings
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.redaction import redact

JDBC = "jdbc."
_KINDS = {"sqlite": SQLITE, "postgresql": POSTGRESQL, "postgres": POSTGRESQL, "mysql": MYSQL, "mariadb": MYSQL}
_REMEDY = "write jdbc:sqlite:/path/catalog.db, jdbc:postgresql://host/database or jdbc:mysql://host/database"
_NAMED = {"username": "user", "dbname": "database", "db": "database"}
_POSTGRESQL = {
    "applicationname": "application_name",
    "application_name": "application_name",
    "connect_timeout": "connect_timeout",
    "connecttimeout": "connect_timeout",
    "options": "options",
    "passfile": "passfile",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslmode": "sslmode",
    "sslpassword": "sslpassword",
    "sslrootcert": "sslrootcert",
    "target_session_attrs": "target_session_attrs",
}
_MYSQL = {
    "ssl_ca": "ssl_ca",
    "ssl_cert": "ssl_cert",
    "ssl_key": "ssl_key",
    "unix_socket": "unix_socket",
    "connect_timeout": "connect_timeout",
    "read_timeout": "read_timeout",
    "write_timeout": "write_timeout",
}
# Of drivers in Java: how they encode, cache and reconnect.
_TUNING = re.compile(
    r"(use(?!.*ssl)|cache|prep|auto|rewrite|character|charset|servertimezone|connectiontimezone|allowpublickeyretrieval|"
    r"zerodatetime|tcp|keepalive|loginTimeout|loglevel|logunclosed|defaultrow|readonly|stringtype|maxreconnects|"
    r"initialtimeout|journal_mode|synchronous|date_|foreign_keys|cache_size)",
    re.IGNORECASE,
)


def settings_of(options: Mapping[str, str]) -> Settings:
    """What the options of a catalog say of its database. InvalidError, or UnsupportedError naming a property."""
    uri = (options.get("uri") or "").strip()
    if not uri:
        raise InvalidError("a SQL catalog needs the option 'uri'", remedy=_REMEDY)
    plain = uri.removeprefix("jdbc:")
    scheme, _, rest = plain.partition(":")
    kind = _KINDS.get(scheme.lower())
    if kind is None:
        raise UnsupportedError("no catalog in a database of this kind", uri=redact(uri), remedy=_REMEDY)
    own = {key[len(JDBC) :]: value for key, value in options.items() if key.startswith(JDBC)}
    pool = options.get("client-pool-size", "2")
    if not pool.isascii() or not pool.isdigit():
        raise InvalidError("not a number", option="client-pool-size", value=pool)
    if kind == SQLITE:
        return _sqlite(rest, own, int(pool))
    return _server(kind, plain, own, int(pool))


def _sqlite(rest: str, own: Mapping[str, str], pool: int) -> Settings:
    path, _, query = rest.partition("?")
    if path.startswith("file:"):
        path = path[len("file:") :]
    given = {**dict(parse_qsl(query)), **own}
    while path.startswith("//"):  # sqlite:///path, as others write it
        path = path[2:] if path.startswith("///") else path[1:]
    if not path or ":memory:" in path or given.get("mode") == "memory":
        raise InvalidError(
            "a catalog in memory would end with this process", remedy="name a file: jdbc:sqlite:/path/catalog.db"
        )
    wait = _whole(given.pop("busy_timeout", "30000"), "busy_timeout")
    _refuse_rest([key for key in given if key not in ("user", "password", "username")])
    return Settings(SQLITE, {"database": path, "timeout": wait / 1000}, f"sqlite:{path}", pool)


def _server(kind: str, plain: str, own: Mapping[str, str], pool: int) -> Settings:
    try:
        parts = urlsplit(plain)
        port = parts.port
    except ValueError as error:
        raise InvalidError("not the URL of a database", uri=redact(plain), remedy=_REMEDY) from error
    given = {**own, **dict(parse_qsl(parts.query, keep_blank_values=True))}
    named = {_NAMED.get(key.lower(), key.lower()): value for key, value in given.items()}
    user = unquote(parts.username) if parts.username else named.pop("user", None)
    password = unquote(parts.password) if parts.password else named.pop("password", None)
    host = parts.hostname or named.pop("host", None)
    database = unquote(parts.path.lstrip("/")) or named.pop("database", "")
    own_port = port or named.pop("port", None)
    for key in ("user", "password", "host", "database", "port"):
        named.pop(key, None)
    where: dict[str, Any] = {"host": host, "port": None if own_port is None else _whole(own_port, "port"), "user": user}
    where["password"] = password
    if kind == POSTGRESQL:
        where |= {"dbname": database, **_postgresql(named)}
    else:
        where |= {"database": database, "charset": "utf8mb4", **_mysql(named)}
    shown = f"{kind}://{where.get('unix_socket') or host or ''}{f':{own_port}' if own_port else ''}/{database}"
    return Settings(kind, {key: value for key, value in where.items() if value is not None}, shown, pool)


def _postgresql(named: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"connect_timeout": 30}
    if str(named.pop("ssl", "false")).lower() in ("true", ""):
        found["sslmode"] = "verify-full"  # as the driver in Java
    schema = named.pop("currentschema", None)
    if schema is not None:
        found["options"] = f"-c search_path={schema}"
    for key in [key for key in named if key in _POSTGRESQL]:
        value, own = named.pop(key), _POSTGRESQL[key]
        found[own] = _whole(value, key) if own == "connect_timeout" else value
    _refuse_rest(list(named))
    return found


def _mysql(named: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"connect_timeout": 30}
    seconds = named.pop("connecttimeout", None)
    if seconds is not None:
        found["connect_timeout"] = max(1, _whole(seconds, "connectTimeout") // 1000)
    mode = named.pop("sslmode", "").lower().replace("-", "_")
    if str(named.pop("usessl", "false")).lower() == "true":
        mode = mode or "required"
    if str(named.pop("requiressl", "false")).lower() == "true":
        mode = mode or "required"
    if str(named.pop("verifyservercertificate", "false")).lower() == "true":
        mode = "verify_ca"
    found |= _tls(mode)
    for key in [key for key in named if key in _MYSQL]:
        value = named.pop(key)
        found[_MYSQL[key]] = _whole(value, key) if key.endswith("_timeout") else value
    _refuse_rest(list(named))
    return found


def _whole(value: str | int, key: str) -> int:
    text = str(value).strip()
    if not text.isascii() or not text.isdigit():
        raise InvalidError("not a whole number", property=JDBC + key, value=text, remedy="digits alone, without a unit")
    return int(text)


def _tls(mode: str) -> dict[str, Any]:
    """Arguments of the driver for a mode of TLS, of MySQL's and MariaDB's names."""
    if mode in ("", "preferred"):
        return {}
    if mode in ("disabled", "disable"):
        return {"ssl_disabled": True}
    if mode in ("required", "trust"):
        return {"ssl": {"check_hostname": False, "verify_mode": "none"}}
    if mode == "verify_ca":
        return {"ssl": {"check_hostname": False, "verify_mode": "required"}}
    if mode in ("verify_identity", "verify_full"):
        return {"ssl": {"check_hostname": True, "verify_mode": "required"}}
    raise InvalidError("not a mode of TLS", property="sslMode", value=mode, remedy="REQUIRED or VERIFY_IDENTITY")


def _refuse_rest(keys: list[str]) -> None:
    unknown = sorted(key for key in keys if not _TUNING.match(key))
    if unknown:
        raise UnsupportedError(
            "properties of a driver in Java that are not honoured here",
            properties=[f"{JDBC}{key}" for key in unknown],
            remedy="leave them out; docs/catalogs.md lists those that are honoured",
        )
