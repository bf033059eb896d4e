"""The user's configuration: warehouses by name, with their storage options; secrets only by reference.

    <the user's folder for settings>/bucketlake/config.json, or $BUCKETLAKE_CONFIG; readable by the user alone
    {"default": "prod", "warehouses": {"prod": {"warehouse": "s3://b/wh", "options": {"s3.endpoint": …},
     "secrets": {"s3.secret-key": "env:PROD_KEY", "s3.access-key": "keyring"}}}}

A secret is read when the warehouse is opened: `env:NAME` from the environment, `keyring` from the machine's keyring.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from bucketlake.env import user_files
from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.lazy import lazy
from bucketlake.redaction import holds_password, is_secret
from bucketlake.values import dataclass

keyring = lazy("keyring")

__all__ = ["Named", "Settings", "default_warehouse", "load", "resolved", "save", "warehouse"]

VARIABLE = "BUCKETLAKE_CONFIG"
SERVICE = "bucketlake"


@dataclass(frozen=True, slots=True)
class Named:
    """A warehouse of the configuration. `secrets`: option to reference, never to the secret."""

    name: str
    warehouse: str
    options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration."""

    default: str | None = None
    warehouses: Mapping[str, Named] = field(default_factory=dict)


def path() -> str:
    """Where the configuration lies."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        base = f"{home}/Library/Application Support"
    elif os.name == "nt":
        base = os.environ.get("APPDATA") or home
    else:
        base = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return f"{base}/bucketlake/config.json"


def load() -> Settings:
    """The configuration as it is; an empty one where there is none. InvalidError for a file that is none."""
    text = user_files.read(path())
    if text is None:
        return Settings()
    try:
        found = json.loads(text)
        named = {
            str(name): Named(str(name), _text(one["warehouse"]), _texts(one, "options"), _texts(one, "secrets"))
            for name, one in dict(found.get("warehouses") or {}).items()
        }
        default = found.get("default")
        return Settings(None if default is None else _text(default), named)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidError(
            "not a configuration of bucketlake", path=path(), remedy="mend or remove the file"
        ) from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _texts(one: Mapping[str, Any], key: str) -> dict[str, str]:
    return {str(name): _text(value) for name, value in dict(one.get(key) or {}).items()}


def save(settings: Settings) -> None:
    """Write the configuration, readable by the user alone. InvalidError where it would hold a secret."""
    for one in settings.warehouses.values():
        refuse_secrets(one)
    warehouses = {
        name: {"warehouse": one.warehouse, "options": dict(one.options), "secrets": dict(one.secrets)}
        for name, one in settings.warehouses.items()
    }
    text = json.dumps({"default": settings.default, "warehouses": warehouses}, indent=2, sort_keys=True)
    user_files.write_private(path(), text + "\n")


def refuse_secrets(one: Named) -> None:
    """InvalidError for what would lie in a file and must not."""
    literal = sorted(key for key in one.options if is_secret(key))
    if literal:
        raise InvalidError(
            "a secret is not written to the configuration",
            option=literal[0],
            remedy="give the option by --secret, with env:NAME or keyring as its value",
        )
    if holds_password(one.warehouse) or any(holds_password(value) for value in one.options.values()):
        raise InvalidError("a URL with a password is not written to the configuration", remedy="use --secret")
    for key, reference in one.secrets.items():
        if reference != "keyring" and not (reference.startswith("env:") and len(reference) > 4):
            raise InvalidError("not a reference to a secret", option=key, remedy="write env:NAME or keyring")


def default_warehouse() -> str | None:
    """The name of the warehouse that is meant where none is said."""
    return load().default


def warehouse(name: str) -> Named | None:
    """The warehouse of a name, None where the configuration has none."""
    return load().warehouses.get(name)


def resolved(named: Named) -> dict[str, str]:
    """A warehouse's options with its secrets. NotFoundError for one that is not where it should be."""
    options = dict(named.options)
    for key, reference in named.secrets.items():
        options[key] = _secret(named.name, key, reference)
    return options


def _secret(name: str, key: str, reference: str) -> str:
    if reference.startswith("env:"):
        found = os.environ.get(reference[4:])
        if found is None:
            raise NotFoundError(
                f"the environment has no {reference[4:]}",
                warehouse=name,
                option=key,
                remedy=f"export {reference[4:]}=…",
            )
        return found
    stored = _keyring("get_password", f"{name}/{key}")
    if stored is None:
        raise NotFoundError(
            "the keyring has no such secret",
            warehouse=name,
            option=key,
            remedy=f"bucketlake config secret {name} {key}",
        )
    return str(stored)


def store_secret(name: str, key: str, value: str) -> None:
    """Put a secret into the machine's keyring."""
    _keyring("set_password", f"{name}/{key}", value)


def forget_secret(name: str, key: str) -> None:
    """Take a secret out of the machine's keyring; absent is fine."""
    if _keyring("get_password", f"{name}/{key}") is not None:
        _keyring("delete_password", f"{name}/{key}")


def _keyring(action: str, *arguments: str) -> Any:
    try:
        return getattr(keyring, action)(SERVICE, *arguments)
    except ModuleNotFoundError as error:
        raise NotFoundError("keyring is not installed", remedy="pip install keyring, or use env:NAME") from error
    except Exception as error:  # whatever the machine's own keyring raises
        raise InvalidError(
            "the keyring does not answer", reason=type(error).__name__, remedy="use env:NAME instead"
        ) from error
