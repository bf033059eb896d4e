"""What may be the name of a file or folder, wherever it was read: names are names, and lead nowhere else.

    name     := 1 to 255 bytes of UTF-8; no `/`, `\\`, control character; not `.` or `..`
    number   := `0`, or digits 0-9 without leading zero, of 64 bits         in `snapshot-<n>`, `schema-<n>`, hints, …
    relative := name { "/" name }
    own      := a UUID of version 8 (RFC 9562: a vendor's own) `xxxxxxxx-xxxx-8b0c-a1ce-xxxxxxxxxxxx`, x random

`check_name` is for names that a caller gives (InvalidError), `check_names` for those that a file holds (CorruptError).
Spec: docs/spec/paths.md#names
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from bucketlake.errors import CorruptError, InvalidError

MAX_BYTES = 255
_LONG_MAX = (1 << 63) - 1
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_NEVER = bytes([*range(32), 127]) + b"/\\"
_OWN = "8b0c-a1ce"
_WRITTEN_HERE = re.compile(rf"[0-9a-f]{{8}}-[0-9a-f]{{4}}-{_OWN}-[0-9a-f]{{12}}-[0-9]+\.")
_PART = r"(?:`(?:[^`]|``)+`|[^.`]+)+"
_PIECE = re.compile(r"`((?:[^`]|``)+)`|[^.`]+")
_LISTED = re.compile(r"\s*`((?:[^`]|``)+)`\s*(?:,|\Z)|([^,]*)(?:,|\Z)")
_ODD = frozenset(["", ".", ".."])


def number_of(text: str) -> int | None:
    """The number that a file's name or a hint spells, None for what is none: signs, other scripts' digits, leading
    zeros and more than 64 bits are not taken."""
    if _NUMBER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number <= _LONG_MAX else None


def own_uuid(random: str) -> str:
    """The identifier that data files written here bear, made of a random UUID."""
    return f"{random[:14]}{_OWN}{random[23:]}"


def is_own(name: str) -> bool:
    """Whether Bucketlake wrote the data file of this name. Others' statistics may leave NaN out of the bounds."""
    return _WRITTEN_HERE.search(name) is not None


def fault_of(name: object) -> str | None:
    """Why this cannot be the name of a file, None if it can."""
    if not isinstance(name, str):
        return "it is no text"
    if name in _ODD:
        return "it is empty" if not name else "it names a folder above or the folder itself"
    if "/" in name or "\\" in name:
        return "it holds a separator of folders"
    if _CONTROL.search(name):
        return "it holds a control character"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "it is no Unicode text"
    return f"it is longer than {MAX_BYTES} bytes" if size > MAX_BYTES else None


def check_name(name: str, what: str) -> str:
    """The name; InvalidError where it cannot be one."""
    fault = fault_of(name)
    if fault is not None:
        raise InvalidError(f"not the name of a {what}", name=_shown(name), reason=fault, remedy="use a plain name")
    return name


def check_names(names: Sequence[str], source: str) -> None:
    """CorruptError naming `source`, the file that holds the names, where one of them cannot be a file's."""
    if _plain(names):
        return
    for name in names:
        fault = fault_of(name)
        if fault is not None:
            raise CorruptError("a file names what is no file name", path=source, name=_shown(name), reason=fault)


def _plain(names: Sequence[str]) -> bool:
    """Whether all are names beyond doubt; cheap for many."""
    try:
        text = "".join(names)
    except TypeError:
        return False
    return (
        text.isascii()
        and len(text.encode().translate(None, _NEVER)) == len(text)
        and _ODD.isdisjoint(names)
        and max(map(len, names), default=0) <= MAX_BYTES
    )


def check_relative(path: str, what: str) -> None:
    """InvalidError where a folder, told as a path below another one, leads elsewhere."""
    for part in path.strip("/").split("/") if path.strip("/") else ():
        fault = fault_of(part)
        if fault is not None:
            raise InvalidError(
                f"{what} leads out of the table's folder, or is not a folder",
                path=_shown(path),
                reason=fault,
                remedy="name a folder below the table's, without '..'",
            )


def check_path_options(options: Mapping[str, str]) -> None:
    """InvalidError for an option of a table that would lead its files out of its folder."""
    if "branch" in options:
        check_name(options["branch"], "branch")
    for key in ("data-file.prefix", "changelog-file.prefix"):
        if key in options:
            check_name(f"{options[key]}0", f"file with option '{key}'")
    if options.get("data-file.path-directory"):
        check_relative(options["data-file.path-directory"], "option 'data-file.path-directory'")


def fault_of_path(path: str) -> str | None:
    """Why a whole path or URI does not say for itself where it leads, None if it does."""
    if _CONTROL.search(path) or "\\" in path:
        return "it holds a control character or a backslash"
    parts = path.partition("://")[2] or path.removeprefix("file:").lstrip("/")
    fault = next((fault for part in parts.split("/") if (fault := fault_of(part)) is not None), None)
    return fault if fault is None else f"a part of it is no name: {fault}"


def local_path(path: str) -> str:
    """A `file:` URI as the plain path that it means; others as they are."""
    if not path.startswith("file:"):
        return path
    rest = path.removeprefix("file:")
    if rest.startswith("//") and not rest.startswith("///"):
        rest = rest[2:].partition("/")[2]
    return "/" + rest.lstrip("/")


def table_of_folder(folder: str) -> str:
    """`db.t` where the folder lies as a catalog lays it, else the folder's name."""
    *_, above, last = ("", *folder.rstrip("/").split("/"))
    return f"{above.removesuffix('.db')}.{last}" if above.endswith(".db") else last


def lies_in(path: str, root: str) -> bool:
    """Whether a path lies in a folder, by its text."""
    return path.startswith(root) and (root.endswith("/") or path[len(root) :][:1] == "/")


def lies_in_any(path: str, roots: Iterable[str]) -> bool:
    """Whether a path lies in one of these folders, by its text."""
    return any(lies_in(path, root) for root in roots)


def listed_roots(text: str | None) -> tuple[str, ...]:
    """The folders of a comma-separated list, local ones as plain paths, without trailing slash."""
    found = (local_path(part.strip()) for part in (text or "").split(",") if part.strip())
    return tuple(part.rstrip("/") or "/" for part in found)


def _shown(name: object) -> str:
    text = repr(name)
    return text if len(text) <= 100 else f"{text[:97]}…"


def too_long(path: str) -> InvalidError:
    """What to say of a path with a name that the file system does not take."""
    longest = max(path.split("/"), key=len)
    return InvalidError(
        "a name is longer than the file system takes",
        path=path,
        bytes=len(longest.encode()),
        remedy="take shorter names: values of partition columns are names of folders",
    )


def parts_of(text: str) -> list[str]:
    """Parts between dots, backticks removed; empty if the text has another shape."""
    if not re.fullmatch(rf"{_PART}(?:\.{_PART})*", text):
        return []
    return [_PIECE.sub(_unquoted, part) for part in re.findall(_PART, text)]


def names_of(text: str) -> list[str]:
    """Names between commas, without the blanks around them; in backticks, which are doubled within, any name."""
    found = [(piece[1], (piece[2] or "").strip()) for piece in _LISTED.finditer(text)]
    return [quoted.replace("``", "`") if quoted else plain for quoted, plain in found if quoted or plain]


def text_of(names: Iterable[str]) -> str:
    """The text of which `names_of` makes these names."""
    plain = re.compile(r"[^\s,`](?:[^,]*[^\s,])?")
    return ",".join(name if plain.fullmatch(name) else "`" + name.replace("`", "``") + "`" for name in names)


def _unquoted(piece: re.Match[str]) -> str:
    return piece[0] if piece[1] is None else piece[1].replace("``", "`")
