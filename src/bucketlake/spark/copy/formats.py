"""FILE_FORMAT of COPY INTO: which options each format takes, and what Spark's readers and writers call them.

Spec: docs/sql/copy-into.md#formats
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from bucketlake.errors import InvalidError
from bucketlake.values import dataclass

Value = str | tuple[str, ...]
_READ = {
    "CSV": {
        "FIELD_DELIMITER": "sep",
        "QUOTE": "quote",
        "ESCAPE": "escape",
        "COMPRESSION": "compression",
        "SKIP_HEADER": "header",
        "NULL_IF": "",
        "EMPTY_FIELD_AS_NULL": "",
    },
    "JSON": {"MULTI_LINE": "multiLine", "COMPRESSION": "compression", "NULL_IF": "", "EMPTY_FIELD_AS_NULL": ""},
    "PARQUET": {"COMPRESSION": "compression"},
}
_WRITE = {
    "CSV": {
        "FIELD_DELIMITER": "sep",
        "HEADER": "header",
        "QUOTE": "quote",
        "ESCAPE": "escape",
        "COMPRESSION": "compression",
    },
    "JSON": {"COMPRESSION": "compression", "DATE_FORMAT": "dateFormat", "TIMESTAMP_FORMAT": "timestampFormat"},
    "PARQUET": {"COMPRESSION": "compression"},
}


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A FILE_FORMAT clause. `name`: CSV, JSON or PARQUET; `options`: by upper-case key, TYPE left out."""

    name: str
    options: Mapping[str, Value]

    @classmethod
    def of(cls, given: Mapping[str, Value]) -> FileFormat:
        """The clause's options with TYPE among them. InvalidError without one."""
        name = given.get("TYPE")
        if name is None:
            raise InvalidError("FILE_FORMAT must include TYPE", remedy="FILE_FORMAT = (TYPE = CSV)")
        return cls(str(name).upper(), {key: value for key, value in given.items() if key != "TYPE"})

    def reader_options(self) -> dict[str, str]:
        """What Spark's reader is told. InvalidError for options that a load does not take."""
        if "MODE" in self.options:
            raise InvalidError(
                "MODE cannot be specified in FILE_FORMAT options; it is reserved for ON_ERROR handling",
                remedy="leave it out",
            )
        self._check(_READ, "import")
        found = self._mapped(_READ)
        if "SKIP_HEADER" in self.options:
            value = str(self.options["SKIP_HEADER"])
            if value not in ("0", "1"):
                raise InvalidError(f"SKIP_HEADER supports only 0 or 1, got: {value}")
            found["header"] = "true" if value == "1" else "false"
        return found

    def writer_options(self) -> dict[str, str]:
        """What Spark's writer is told. InvalidError for options that an export does not take."""
        self._check(_WRITE, "export")
        return self._mapped(_WRITE)

    @property
    def null_if(self) -> tuple[str, ...]:
        """Texts that stand for null."""
        value = self.options.get("NULL_IF", ())
        return (value,) if isinstance(value, str) else value

    @property
    def empty_is_null(self) -> bool:
        """Whether an empty text stands for null."""
        return str(self.options.get("EMPTY_FIELD_AS_NULL", "")).upper() == "TRUE"

    def _check(self, known: Mapping[str, Mapping[str, str]], purpose: str) -> None:
        if self.name not in known:
            raise InvalidError(f"Unsupported file format type: {self.name}. Supported types: CSV, JSON, PARQUET")
        unknown = [key for key in self.options if key not in known[self.name]]
        if unknown:
            near = get_close_matches(unknown[0], known[self.name], 1)
            raise InvalidError(
                f"Unsupported FILE_FORMAT options for {purpose}: {', '.join(unknown)}",
                remedy=f"did you mean {near[0]}?" if near else f"use some of {', '.join(known[self.name])}",
            )
        lists = [key for key, value in self.options.items() if key != "NULL_IF" and not isinstance(value, str)]
        if lists:
            raise InvalidError("this FILE_FORMAT option takes one value", option=lists[0])

    def _mapped(self, known: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        names = known[self.name]
        given = {names[key]: str(value) for key, value in self.options.items() if names[key]}
        return {key: value.lower() if value in ("TRUE", "FALSE") else value for key, value in given.items()}
