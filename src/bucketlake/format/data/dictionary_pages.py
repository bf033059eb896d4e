"""How long the texts of a column chunk are that are stored as places in a dictionary: the footer does not say, and few
stored bytes can stand for rows without end.

Spec: docs/reliability.md#what-is-checked
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

from bucketlake.format.data import thrift
from bucketlake.lazy import pc

_HEADER = 1 << 10  # bytes that a page's header has at most: that of a dictionary has no statistics
_DICTIONARY = 2  # PageType


def longest_text(file: BinaryIO, chunk: Any, least: int, look: Callable[[], Any]) -> int:
    """Bytes that a text of a column chunk has at most. `chunk`: its metadata; `least`: what need not be known better;
    `look`: gives some of the column as places in its dictionary, or None where such a column is not read so.

    Raises: CorruptError, IndexError over damaged pages.
    """
    start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    file.seek(start)
    header = thrift.decode_struct(file.read(_HEADER))
    if thrift.get(header, 1) != _DICTIONARY:
        return 0  # plain: no more than is stored
    size = int(thrift.get(header, 2) or 0)
    if size <= least or (array := look()) is None:
        return size
    return int(pc.max(pc.binary_length(array.dictionary)).as_py() or 0)
