"""Default values of columns: what a schema file's text means, and the text for a value that SQL gives.

Paimon stores a default as text that it casts to the column's type: `5`, `'abc'`, `abc`, `2024-01-01`, `[1, 2]`,
`{k -> v}`, `{1, x}`. SQL gives an expression: constants of it are evaluated here, and stored as the text that Paimon
reads as this value. Text is never put into a query: a schema file may be anybody's.

Spec: docs/spec/schema.md#defaults
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from bucketlake.errors import BucketlakeError, InvalidError, UnsupportedError
from bucketlake.lazy import pa
from bucketlake.schema.constant import Pairs, Struct, constant, looks_computed
from bucketlake.schema.evolution import value_of
from bucketlake.types.model import (
    LISTS,
    MAX_LENGTH,
    DataField,
    DataType,
    Root,
    arrow_type,
    check_vectors,
    quote_text,
    type_text,
)

_WHOLE = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_TEXT = (Root.CHAR, Root.VARCHAR)
_BYTES = (Root.BINARY, Root.VARBINARY)
_NESTED = (*LISTS, Root.MAP, Root.ROW)
_BRACKETS = {**dict.fromkeys(LISTS, ("[", "]", "array")), Root.MAP: ("{", "}", "map"), Root.ROW: ("{", "}", "struct")}
_NO_VALUE = (BucketlakeError, ValueError, ArithmeticError, RecursionError)  # pa.ArrowInvalid is a ValueError
_OPENING, _CLOSING = "([{<", ")]}>"


def default_scalar(field: DataField) -> pa.Scalar:
    """The value that a column's default stands for, null where there is none or it is NULL.

    Read as Paimon casts the text; where that is no value of the type, as a constant SQL expression.
    Raises: InvalidError for text that is neither, UnsupportedError for types whose values no text gives here.
    """
    text = field.default
    if text is None or text.strip().upper() == "NULL":
        return pa.scalar(None, arrow_type(field.type))
    try:
        value = pa.scalar(_read(text, field.type), arrow_type(field.type))
        if field.type.root is Root.VECTOR:
            check_vectors(pa.repeat(value, 1), field)
        return value
    except UnsupportedError:
        raise
    except (*_NO_VALUE, pa.ArrowTypeError) as error:
        raise InvalidError(
            f"Unsupported default value `{text[:200]}` for type {type_text(field.type)}",
            column=field.name,
            reason=str(error).splitlines()[0][:200],
            remedy="set a constant: ALTER TABLE … ALTER COLUMN … SET DEFAULT",
        ) from error


def kept_default(field: DataField) -> DataField:
    """The column with its default as Paimon reads it, too: a constant expression as its value, NULL as none.

    Errors as of `default_scalar`, and of `stored_default` for expressions, where no row could get the default.
    """
    text = field.default
    if text is None or default_scalar(field).as_py() is None:
        return replace(field, default=None)
    if field.type.root in _NESTED or _is_cast(text, field.type):
        return field
    return replace(field, default=stored_default(text, field))


def _is_cast(text: str, t: DataType) -> bool:
    """Whether a text is a value by itself, no expression; Paimon cannot write to a table with another one."""
    try:
        _cast(text[1:-1] if _is_quoted(text) else text, t)
    except InvalidError:
        return False
    return True


def stored_default(text: str, field: DataField) -> str | None:
    """The text that stands for the constant SQL expression `text` in a schema file; None for NULL.

    Raises: InvalidError for what is no constant or no value of the column; UnsupportedError where Paimon's text cannot
    hold it.
    """
    try:
        value = _assigned(constant(text), field.type)
    except (*_NO_VALUE, pa.ArrowTypeError) as error:
        kind = UnsupportedError if isinstance(error, UnsupportedError) else InvalidError
        raise kind(
            f"Unsupported default value `{text[:200]}` for type {type_text(field.type)}",
            column=field.name,
            reason=str(error).splitlines()[0][:200],
            remedy="give a constant: a literal, a cast or arithmetic of literals, array(…), map(…), named_struct(…)",
        ) from error
    if value is None:
        return None
    found = f"'{_plain(value, field.type)}'" if field.type.root in (*_TEXT, *_BYTES) else _plain(value, field.type)
    again = default_scalar(DataField(field.id, field.name, field.type, default=found))
    if repr(again.as_py()) != repr(pa.scalar(value, arrow_type(field.type)).as_py()):  # NaN is not equal to itself
        raise UnsupportedError(
            "Paimon's text for default values cannot hold this one",
            column=field.name,
            default=text[:200],
            remedy="leave out quotes, brackets, commas, backslashes and empty texts inside arrays, maps and rows",
        )
    return found


def default_sql(field: DataField) -> str:
    """The column's default as a SQL expression."""
    return _sql(default_scalar(field).as_py(), field.type)


def default_shown(field: DataField) -> str:
    """The column's default as CREATE TABLE takes it, in Apache Paimon's spelling."""
    return _sql(default_scalar(field).as_py(), field.type, shown=True)


# ---------------------------------------------------------------------------------------------- reading


def _read(text: str, t: DataType) -> Any:
    """The Python value of a default's text."""
    if t.root in _NESTED:
        return _read_nested(text.strip(), t)
    quoted = _is_quoted(text)
    plain = text[1:-1] if quoted else text
    if t.root in (*_TEXT, *_BYTES) and not quoted and looks_computed(text):
        raise InvalidError("an expression that only another engine can mean", default=text[:200])
    try:
        return _cast(plain, t)
    except InvalidError:
        return _assigned(constant(text), t)


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] == "'"


def _cast(text: str, t: DataType) -> Any:
    value = value_of(text, t)
    if not value.is_valid:
        raise InvalidError("text is not a value of the type", text=text[:200], type=type_text(t))
    return value.as_py()


def _read_nested(text: str, t: DataType) -> Any:
    """SQL's `array(…)` means what SQL means by it; brackets, and what SQL does not know, are Paimon's."""
    opens, closes, function = _BRACKETS[t.root]
    if text.startswith(opens) and text.endswith(closes):
        return _members(text[1:-1].strip(), t)
    try:
        return _assigned(constant(text), t)
    except InvalidError:
        found = re.fullmatch(rf"{function}\s*\((.*)\)", text, re.IGNORECASE | re.DOTALL)
        if found is None:
            raise
        content = found.group(1).strip()
        if t.root is Root.MAP and content:
            parts = _split(content)
            if len(parts) % 2:
                raise InvalidError("a map needs a value for every key", default=text[:200]) from None
            content = ", ".join(f"{key} -> {value}" for key, value in zip(parts[::2], parts[1::2], strict=True))
        return _members(content, t)


def _members(content: str, t: DataType) -> Any:
    if t.root is Root.ROW:
        parts = _split(content) if content else ["null"] * len(t.fields)
        if len(parts) != len(t.fields):
            raise InvalidError("a row needs a value for every member", members=len(t.fields), given=len(parts))
        return {f.name: _member(part, f.type) for f, part in zip(t.fields, parts, strict=True)}
    if t.root in LISTS and t.element is not None:
        return [_member(part, t.element) for part in _split(content)] if content else []
    if t.key is None or t.element is None:
        raise InvalidError("no type for the map's entries", type=type_text(t))
    pairs: dict[Any, Any] = {}
    for entry in _split(content) if content else ():
        part = re.sub(r'\\.|"', "", entry, flags=re.DOTALL)  # in maps alone Paimon takes the quotes off
        found = re.fullmatch(r"(.+?)\s*->\s*(.+)", part, re.DOTALL)
        if found is None:
            raise InvalidError("a map's entry needs `->`", entry=entry[:200])
        pairs[_member(found.group(1).strip(), t.key)] = _member(found.group(2).strip(), t.element)
    return list(pairs.items())


def _member(text: str, t: DataType) -> Any:
    if text == "null":
        return None
    return _read_nested(text, t) if t.root in _NESTED else _cast(text, t)


def _split(content: str) -> list[str]:
    """The parts between commas outside brackets and double quotes, as Paimon cuts them."""
    parts, start, depth, quoted, escaped = [], 0, 0, False, False
    for at, sign in enumerate(content):
        if escaped or sign == "\\":
            escaped = not escaped
        elif sign == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif sign in _OPENING:
            depth += 1
        elif sign in _CLOSING and not content[:at].endswith("-"):
            depth = max(depth - 1, 0)
        elif sign == "," and not depth:
            parts.append(content[start:at])
            start = at + 1
    return [part.strip() for part in (*parts, content[start:]) if part]


# ---------------------------------------------------------------------------------------------- assigning


def _assigned(value: Any, t: DataType) -> Any:
    """A constant as a value of the type, nothing lost; InvalidError."""
    if value is None:
        return None
    if t.root in _NESTED:
        return _assigned_nested(value, t)
    found = _assigned_flat(value, t)
    if found is None:
        shown = repr(value)[:80]
        raise InvalidError("the constant is not a value of the column's type", type=type_text(t), constant=shown)
    return found


def _assigned_flat(value: Any, t: DataType) -> Any:
    """None: it is not one."""
    if t.root is Root.TIMESTAMP_LTZ:
        raise UnsupportedError("defaults of local-zoned timestamps: their text would depend on a machine's time zone")
    if isinstance(value, bool):
        return value if t.root is Root.BOOLEAN else _short(str(value).lower(), t)
    if t.root in _WHOLE:
        whole, most = _number(value, t), 1 << (_WHOLE[t.root] - 1)
        return int(whole) if whole is not None and whole == int(whole) and -most <= whole < most else None
    if t.root is Root.DECIMAL:
        number = _number(value, t)
        return number if number is None else pa.scalar(number, arrow_type(t)).as_py()  # ArrowInvalid where it rounds
    if t.root in (Root.FLOAT, Root.DOUBLE) and isinstance(value, (int, float, Decimal)):
        return pa.scalar(float(value), arrow_type(t)).as_py()
    if t.root in _BYTES:
        data = value.encode() if isinstance(value, str) else value
        return data if isinstance(data, bytes) and len(data) <= (t.length or 0) else None
    if t.root is Root.TIMESTAMP and isinstance(value, dt.date):
        moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
        return moment if moment.microsecond % 10 ** max(6 - (t.precision or 0), 0) == 0 else None
    if t.root is Root.DATE and isinstance(value, dt.date):
        return None if isinstance(value, dt.datetime) else value
    if t.root in _TEXT and isinstance(value, (str, int, Decimal, dt.date)):
        return _short(format(value, "f") if isinstance(value, Decimal) else str(value), t)
    return _cast(value, t) if isinstance(value, str) else None


def _short(text: str, t: DataType) -> str | None:
    length = t.length or 0
    if t.root not in _TEXT or len(text) > length:
        return None
    return text.ljust(length) if t.root is Root.CHAR and length != MAX_LENGTH else text


def _number(value: Any, t: DataType) -> Decimal | None:
    if isinstance(value, str):
        value = _cast(value.strip(), t)
    if isinstance(value, float) and value != value.__trunc__():
        return None
    return Decimal(value) if isinstance(value, (int, float, Decimal)) else None


def _assigned_nested(value: Any, t: DataType) -> Any:
    if t.root in LISTS and isinstance(value, list) and t.element is not None:
        return [_assigned(item, t.element) for item in value]
    if t.root is Root.MAP and isinstance(value, Pairs) and t.key is not None and t.element is not None:
        pairs = [(_assigned(key, t.key), _assigned(item, t.element)) for key, item in value.items]
        keys = [repr(key) for key, _ in pairs]
        if len(set(keys)) != len(keys) or any(key is None for key, _ in pairs):
            raise InvalidError("a map's keys are not null and occur once")
        return pairs
    if t.root is Root.ROW and isinstance(value, Struct) and len(value.members) == len(t.fields):
        if value.named and [name.lower() for name, _ in value.members] != [f.name.lower() for f in t.fields]:
            raise InvalidError("the members are not the column's", members=[f.name for f in t.fields])
        return {f.name: _assigned(item, f.type) for f, (_, item) in zip(t.fields, value.members, strict=True)}
    raise InvalidError("the constant is not a value of the column's type", type=type_text(t))


# ---------------------------------------------------------------------------------------------- writing


def _plain(value: Any, t: DataType) -> str:
    """The value as Paimon's text, strings without quotes."""
    if value is None:
        return "null"
    if t.root in LISTS and t.element is not None:
        return "[" + ", ".join(_plain(item, t.element) for item in value) + "]"
    if t.root is Root.MAP and t.key is not None and t.element is not None:
        key, item = t.key, t.element
        return "{" + ", ".join(f"{_plain(k, key)} -> {_plain(v, item)}" for k, v in value) + "}"
    if t.root is Root.ROW:
        return "{" + ", ".join(_plain(value[f.name], f.type) for f in t.fields) + "}"
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise UnsupportedError("defaults of bytes that are not text: Paimon stores text") from error
    return _flat(value)


def _flat(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float) and not math.isfinite(value):  # Java reads no other spelling
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return str(value)


def _sql(value: Any, t: DataType, shown: bool = False) -> str:
    """`shown`: members of rows by place, which only the column's type names."""
    if value is None:
        return "NULL"
    if t.root in LISTS and t.element is not None:
        return f"ARRAY({_listed([_sql(item, t.element, shown) for item in value])})"
    if t.root is Root.MAP and t.key is not None and t.element is not None:
        kinds = (t.key, t.element)
        parts = [_sql(part, kind, shown) for pair in value for part, kind in zip(pair, kinds, strict=True)]
        return f"MAP({_listed(parts)})"
    if t.root is Root.ROW and shown:
        return f"STRUCT({_listed([_sql(value[f.name], f.type, shown) for f in t.fields])})"
    if t.root is Root.ROW:
        members = [f"{quote_text(f.name)}, {_sql(value[f.name], f.type)}" for f in t.fields]
        return f"named_struct({_listed(members)})"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP_NTZ {quote_text(str(value))}"
    if isinstance(value, dt.date):
        return f"DATE {quote_text(str(value))}"
    if isinstance(value, bytes):
        return f"X{quote_text(value.hex())}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"CAST({quote_text(_flat(value))} AS {t.root.name})"
    return quote_text(value) if isinstance(value, str) else _flat(value)


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts)
