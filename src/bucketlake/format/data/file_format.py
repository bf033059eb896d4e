"""How one data file is written: format, codec and the format's own settings, as a table's options say.

Spec: docs/spec/datafile.md#options
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from bucketlake.errors import CorruptError, InvalidError, UnsupportedError
from bucketlake.format.data.pieces import FORMAT as MERGED
from bucketlake.format.data.pieces import piece_of
from bucketlake.options.map_layout import SHREDDING, MapLayout, map_layouts
from bucketlake.options.options import DATA_FORMATS, TableOptions, parse_memory_size
from bucketlake.values import dataclass

GROUP_BYTES = 32 << 20  # Arrow bytes encoded at once: small enough to prune and to read in little memory
_COMPRESSED_SUFFIXES = ("gz", "bz2", "deflate", "snappy", "lz4", "zst")


@dataclass(frozen=True, slots=True)
class FileFormat:
    """`compression` lower-case, "none" for none. `settings`: options that start with the format's name.

    `group_bytes`: the most Arrow bytes that make one row group, stripe or run of blocks. `maps`: the MAP columns to
    shred, by name.
    """

    name: str = "parquet"
    compression: str = "zstd"
    zstd_level: int = 1
    group_bytes: int = GROUP_BYTES
    settings: Mapping[str, str] = field(default_factory=dict)
    maps: Mapping[str, MapLayout] = field(default_factory=dict)

    def setting(self, key: str, default: str | None = None) -> str | None:
        """The text of a setting, by its full key."""
        return self.settings.get(key, default)

    def number(self, key: str, default: int) -> int:
        """A setting that is a whole number, or a size such as "1 mb"."""
        text = self.settings.get(key)
        return default if text is None else parse_memory_size(text)

    def flag(self, key: str, default: bool) -> bool:
        """A setting that is true or false."""
        text = (self.settings.get(key) or str(default)).strip().lower()
        if text not in ("true", "false"):
            raise InvalidError("option has an invalid value", option=key, value=text, remedy="use true | false")
        return text == "true"


@dataclass(frozen=True, slots=True)
class BatchSize:
    """How much a reader hands over at a time: at most so many rows and about so many Arrow bytes."""

    rows: int = 131_072
    bytes: int = 32 << 20


def file_format(options: TableOptions, level: int = 0, *, changelog: bool = False) -> FileFormat:
    """What the options say of new files at an LSM level, or of changelog files.

    Raises: InvalidError, UnsupportedError for another format.
    """
    name = (options.get("file.format.per.level") or {}).get(str(level)) or options.get("file.format")
    compression = (options.get("file.compression.per.level") or {}).get(str(level)) or options.get("file.compression")
    if changelog:
        name = options.get("changelog-file.format") or name
        compression = options.get("changelog-file.compression") or compression
    name = name.strip().lower()
    if name not in DATA_FORMATS:
        raise UnsupportedError("file format is not supported", format=name, remedy="use parquet, orc or avro")
    settings = {key: value for key, value in options.raw.items() if key.startswith(f"{name}.")}
    block = options.get("file.block-size")
    key = {"parquet": "parquet.block.size", "orc": "orc.stripe.size"}.get(name)
    limit = block or (parse_memory_size(settings[key]) if key in settings else GROUP_BYTES)
    return FileFormat(
        name,
        compression.strip().lower(),
        options.get("file.compression.zstd-level"),
        max(1, min(limit, GROUP_BYTES)),
        settings,
        map_layouts(options.raw) if name in SHREDDING else {},
    )


def format_of(path: str) -> str:
    """The format that a data file's name tells by its suffix: one of `DATA_FORMATS`, or that of blob files. Raises:
    CorruptError for a name without a known one."""
    name = path.rsplit("/", 1)[-1]
    parts = name.lower().split(".")
    if piece_of(name) is not None:
        parts[-1] = parts[-1].removeprefix(MERGED)
    if parts[-1] in _COMPRESSED_SUFFIXES:
        parts.pop()
    if len(parts) < 2 or parts[-1] not in (*DATA_FORMATS, "blob"):
        raise CorruptError("file name does not tell a known data format", path=path)
    return parts[-1]
