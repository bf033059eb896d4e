"""Names of databases, tables and what stands behind `$`: as users write them, and what may be one."""

from __future__ import annotations

import re

from bucketlake.errors import InvalidError
from bucketlake.file_names import fault_of
from bucketlake.values import dataclass

DEFAULT_DATABASE = "default"
SYSTEM_DATABASE = "sys"
DATABASE_SUFFIX = ".db"
_PART = r"(?:`[^`]+`|[^.`]+)+"


@dataclass(frozen=True, slots=True)
class Identifier:
    """A table's name: database, table, and what stands behind `$`: a system table, `branch_<name>`, or both
    (`branch_<name>$<system table>`)."""

    database: str
    table: str
    system: str | None = None

    @property
    def branch(self) -> str | None:
        """The branch that `$branch_<name>` names."""
        found = (self.system or "").partition("$")[0]
        return found.removeprefix("branch_") if found.startswith("branch_") else None

    @property
    def system_table(self) -> str | None:
        """The system table that the name means, None for a table or a branch of it."""
        return self.system if self.branch is None else (self.system or "").partition("$")[2] or None

    @property
    def text(self) -> str:
        """As users write it."""
        return f"{self.database}.{self.table}" + (f"${self.system}" if self.system else "")


def parse_name(text: str, database: str = DEFAULT_DATABASE) -> Identifier:
    """`table`, `database.table`, either with `$system`, parts optionally in backticks; InvalidError otherwise."""
    folder = name_of_folder(text)
    if folder is not None:
        remedy = f"write '{folder.text}'; the warehouse, '{text.rstrip('/').rsplit('/', 2)[0]}', is said apart"
        raise InvalidError("a folder where a table's name belongs", path=text, remedy=remedy)
    parts = _split(text)
    if len(parts) not in (1, 2):
        raise InvalidError("not a table name", name=text, remedy="write `database.table`")
    table, _, system = parts[-1].partition("$")
    check_name(table, "table")
    if len(parts) == 2:
        check_name(parts[0], "database")
    found = Identifier(parts[0] if len(parts) == 2 else database, table, system or None)
    if found.branch is not None:
        check_name(found.branch, "branch")
    return found


def name_of_folder(path: str) -> Identifier | None:
    """The table that a folder would be, by the names of the last two: `…/<database>.db/<table>`; None for others."""
    parts = path.rstrip("/").rsplit("/", 2)[1:]
    if len(parts) < 2 or not all(parts) or not parts[0].endswith(DATABASE_SUFFIX):
        return None
    table, _, system = parts[1].partition("$")
    return Identifier(parts[0].removesuffix(DATABASE_SUFFIX), table, system or None)


def check_name(name: str, what: str) -> None:
    """InvalidError for a database or table name that cannot be a folder."""
    fault = fault_of(name) or fault_of(f"{name}{DATABASE_SUFFIX}" if what == "database" else name)
    if not name.strip() or fault is not None:
        raise InvalidError(
            f"not a {what} name", name=repr(name)[:100], reason=fault, remedy="use letters, digits, '_' and '-'"
        )


def _split(text: str) -> list[str]:
    """Parts between dots, backticks removed; empty if the text has another shape."""
    if not re.fullmatch(rf"{_PART}(?:\.{_PART})*", text):
        return []
    return [part.replace("`", "") for part in re.findall(_PART, text)]
