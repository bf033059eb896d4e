"""zstd frames to bytes, never more than asked for: by the standard library or its backport, else by Arrow.

    unpack(data, limit)     all frames; None where they hold more than `limit` bytes

Loading Arrow takes longer than all else that a command does who looks at a small table's manifests: the command line
brings the backport along, and from Python 3.14 on the standard library has its own.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from bucketlake.lazy import pa

MODULES = ("compression.zstd", "backports.zstd")
FIRST_STEP = 1 << 16


def unpack(data: bytes, limit: int) -> bytes | None:
    """What frames hold, one behind the other; None beyond `limit` bytes. What they say of their size need not be so.

    Raises: OSError for what is no whole frame.
    """
    module = _module()
    return _by_arrow(data, limit) if module is None else _by_module(module, data, limit)


@cache
def _module() -> Any | None:
    for name in MODULES:
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


def _by_module(module: Any, data: bytes, limit: int) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while data:
        frame = module.ZstdDecompressor()
        try:
            part = frame.decompress(data, limit + 1 - size)
        except module.ZstdError as error:
            raise OSError(str(error)) from error
        parts.append(part)
        size += len(part)
        if size > limit:
            return None
        if not frame.eof:
            raise OSError("truncated zstd frame")
        data = frame.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _by_arrow(data: bytes, limit: int) -> bytes | None:
    parts: list[bytes] = []
    size, step = 0, min(limit + 1, 8 * len(data) + FIRST_STEP)
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while part := stream.read(step):
            parts.append(part)
            size += len(part)
            if size > limit:
                return None
            step = min(limit + 1 - size, max(size, FIRST_STEP))
    return parts[0] if len(parts) == 1 else b"".join(parts)
