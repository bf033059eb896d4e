"""Decimals as other types and others as decimals, as Apache Paimon casts them: exact, rounded half up, null where the
target's precision does not suffice.

Arrow's own casts take a double for its binary value, round half to even, wrap around where a text has too many digits,
and write small decimals with an exponent.
"""

from __future__ import annotations

from bucketlake.lazy import pa, pc

_MOST = 38  # digits
_WIDEST = 76
_COMPACT = 18  # digits: the unscaled value is one long of Java's
_TEXT = r"^(?P<sign>[+-]?)(?P<whole>\d*)\.?(?P<part>\d*)(?:[eE](?P<shift>[+-]?\d{1,9}))?$"
_FAR = 400  # places that a point may move: what is further away is beyond all decimals


def decimal_of(array: pa.Array, precision: int, scale: int) -> pa.Array:
    """Whole numbers, decimals, floating numbers or texts as decimals. ArrowInvalid for a text that is no number."""
    if pa.types.is_string(array.type):
        return _of_text(array, precision, scale)
    if pa.types.is_floating(array.type):
        doubles = array.cast(pa.float64())
        text = pc.if_else(pc.is_finite(doubles), doubles, None).cast(pa.string())  # the shortest that means the value
        return _of_text(text, precision, scale)
    if not pa.types.is_decimal(array.type):
        array = array.cast(pa.decimal128(19, 0))
    return _rounded(array.cast(pa.decimal256(_WIDEST, max(scale, array.type.scale))), precision, scale)


def double_of(array: pa.Array) -> pa.Array:
    """Decimals as doubles: the nearest, of up to 18 digits the quotient of two doubles, as in Java."""
    if array.type.precision > _COMPACT:
        return text_of(array).cast(pa.float64())
    whole = _unscaled(array).cast(pa.decimal128(19, 0)).cast(pa.int64()).cast(pa.float64(), safe=False)
    return pc.divide(whole, pa.scalar(10.0**array.type.scale))


def long_of(array: pa.Array) -> pa.Array:
    """Decimals without their part, of these the lowest 64 bits."""
    if array.type.precision == array.type.scale:  # no digit before the point; Arrow has no room for another
        return pc.if_else(array.is_valid(), pa.scalar(0, pa.int64()), None)
    return pc.trunc(array).cast(pa.int64(), safe=False)


def text_of(array: pa.Array) -> pa.Array:
    """Decimals as texts with all digits of their scale, and no exponent."""
    scale = array.type.scale
    digits = _unscaled(array).cast(pa.string())
    if not scale:
        return digits
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    whole, part = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
    return _joined(sign, whole, part)


def _joined(sign: pa.Array, whole: pa.Array, part: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, whole, ""), part, ".")


def _unscaled(array: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(pa.decimal128(_MOST, 0), len(array), array.buffers(), offset=array.offset)


def _of_text(texts: pa.Array, precision: int, scale: int) -> pa.Array:
    found = pc.extract_regex(texts, _TEXT)
    sign, whole, part, shift = (found.field(name) for name in ("sign", "whole", "part", "shift"))
    digits = pc.add(pc.utf8_length(whole), pc.utf8_length(part))
    odd = pc.and_(texts.is_valid(), pc.invert(pc.greater(pc.fill_null(digits, 0), 0)))
    if pc.any(odd).as_py():
        raise pa.ArrowInvalid(f"text is no decimal number: {texts.filter(odd)[0].as_py()[:40]!r}")
    whole, part = _shifted(whole, part, shift)
    whole = pc.utf8_ltrim(whole, "0")
    fits = pc.less_equal(pc.utf8_length(whole), precision - scale)
    part = pc.utf8_rpad(pc.utf8_slice_codeunits(part, 0, scale + 1), scale + 1, "0")  # one more: it says how to round
    plain = _joined(sign, pc.if_else(pc.equal(whole, ""), "0", whole), part)
    kept = pc.if_else(pc.and_(fits, texts.is_valid()), plain, pa.scalar(None, pa.string()))
    return _rounded(kept.cast(pa.decimal256(_WIDEST, scale + 1)), precision, scale)


def _shifted(whole: pa.Array, part: pa.Array, shift: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Digits before and after the point, which exponents move: a step for each exponent that occurs."""
    for text in pc.unique(shift).to_pylist():
        by = max(-_FAR, min(int(text), _FAR)) if text else 0
        if not by:
            continue
        here = pc.fill_null(pc.equal(shift, text), False)
        if by > 0:
            padded = pc.utf8_rpad(part, by, "0")
            moved = pc.binary_join_element_wise(whole, pc.utf8_slice_codeunits(padded, 0, by), "")
            rest = pc.utf8_slice_codeunits(padded, by)
        else:
            padded = pc.utf8_lpad(whole, -by, "0")
            moved = pc.utf8_slice_codeunits(padded, 0, by)
            rest = pc.binary_join_element_wise(pc.utf8_slice_codeunits(padded, by), part, "")
        whole, part = pc.if_else(here, moved, whole), pc.if_else(here, rest, part)
    return whole, part


def _rounded(wide: pa.Array, precision: int, scale: int) -> pa.Array:
    rounded = pc.round(wide, scale, "half_towards_infinity").cast(pa.decimal256(_WIDEST, scale))
    fits = pc.less(
        pc.abs(rounded), pa.scalar(10 ** (precision - scale), pa.decimal256(_WIDEST - scale, 0)).cast(rounded.type)
    )
    return pc.if_else(fits, rounded, pa.scalar(None, rounded.type)).cast(pa.decimal128(precision, scale))
