"""What may be shown of a text or an option: secrets in URLs and settings are replaced by `***`.

One place: errors pass through here as they are made, and so does every `repr` that shows options.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

HIDDEN = "***"
_WORDS = (
    r"secret|passw(?:or)?d|passphrase|token|credential|signature|access[._-]?key|account[._-]?key|private[._-]?key|"
    r"api[._-]?key|sas[._-]?key|service[._-]?account|keyfile|authorization"
)
_SECRET_KEY = re.compile(_WORDS, re.IGNORECASE)
# `scheme://user:password@`; the password may hold slashes. Some schemes have users of other meaning (abfss).
_PASSWORD = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]*:/{1,3})[^\s/@:]*:[^\s@]*@")
_USER = re.compile(r"(\b(?:https?|s3[an]?|gc?s|jdbc:[a-z]+):/{1,3})[^\s/@]+@", re.IGNORECASE)
# `secret-key=value`, `'secret-key': 'value'`; not the folder of a partition, which stands behind a slash.
_SETTING = re.compile(
    rf"""(?<![/\w.-])((?:[\w.-]*(?:{_WORDS})[\w.-]*|sig)(?:['"]?\s*=\s*|['"]\s*:\s*))("[^"]*"|'[^']*'|[^\s,;&\]}}]+)""",
    re.IGNORECASE,
)
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_NAMES = ("option", "key", "property", "setting")
_VALUES = ("value", "given", "text", "default")


def is_secret(key: str) -> bool:
    """Whether the value under this key is nobody's to see."""
    return _SECRET_KEY.search(key) is not None


def holds_password(url: str) -> bool:
    """Whether a URL carries credentials before its host."""
    return _PASSWORD.search(url) is not None or _USER.search(url) is not None


def printable(text: str) -> str:
    """The text without what a terminal takes for a command or another order of signs; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def redact(text: str) -> str:
    """The text without passwords of URLs and without values of settings that are secret."""
    if "@" in text:
        text = _USER.sub(rf"\1{HIDDEN}@", _PASSWORD.sub(rf"\1{HIDDEN}@", text))
    return _SETTING.sub(rf"\1{HIDDEN}", text) if "=" in text or ":" in text else text


def redact_options(options: Mapping[Any, Any]) -> dict[Any, Any]:
    """Options as they may be shown."""
    return {key: HIDDEN if is_secret(str(key)) else redacted(value) for key, value in options.items()}


def redacted(value: Any) -> Any:
    """A value as it may be shown: texts and options without secrets, others as they are."""
    if isinstance(value, str):
        return redact(value)
    return redact_options(value) if isinstance(value, Mapping) else value


def repr_of(item: Any) -> str:
    """The usual `repr` of a dataclass whose mappings may hold secrets."""
    shown = (f"{part.name}={redacted(getattr(item, part.name))!r}" for part in fields(item) if part.repr)
    return f"{type(item).__qualname__}({', '.join(shown)})"


def redact_details(details: Mapping[str, Any]) -> dict[str, Any]:
    """The details of an error as they may be shown; `option=<a secret's key>` hides the value beside it."""
    named = any(isinstance(value := details.get(name), str) and is_secret(value) for name in _NAMES)
    hidden = _VALUES if named else ()
    return {key: HIDDEN if key in hidden else redacted(value) for key, value in details.items()}
