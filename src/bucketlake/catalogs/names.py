"""Names of databases, tables and what stands behind `$`: as users write them, and what may be one."""

from __future__ import annotations

from bucketlake.errors import InvalidError, check_types
from bucketlake.file_names import fault_of, parts_of
from bucketlake.types.model import quote_identifier
from bucketlake.values import dataclass

DEFAULT_DATABASE = "default"
SYSTEM_DATABASE = "sys"
DATABASE_SUFFIX = ".db"


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
        """As users write it, and `parse_name` reads it."""
        return written(self.database, self.object)

    @property
    def object(self) -> str:
        """The table's name with what stands behind `$`."""
        return self.table + (f"${self.system}" if self.system else "")


def parse_name(text: str, database: str = DEFAULT_DATABASE) -> Identifier:
    """`table`, `database.table`, either with `$system`, parts optionally in backticks, which are doubled within;
    InvalidError otherwise."""
    check_types(str, "write `database.table`, as a text", name=text)
    folder = name_of_folder(text)
    if folder is not None:
        remedy = f"write '{folder.text}'; the warehouse, '{text.rstrip('/').rsplit('/', 2)[0]}', is said apart"
        raise InvalidError("a folder where a table's name belongs", path=text, remedy=remedy)
    parts = parts_of(text)
    if len(parts) not in (1, 2):
        behind = f"; a system table, `{parts[0]}.{parts[1]}${parts[2]}`" if len(parts) == 3 else ""
        raise InvalidError("not a table name", name=text, remedy=f"write `database.table`{behind}")
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


def written(*parts: str) -> str:
    """The name of these parts as users write it: in backticks those that would be read otherwise without."""
    return ".".join(quote_identifier(part) if "." in part or "`" in part else part for part in parts)


def last_part(name: str) -> str:
    """The last part of a table's name, or of its folder's, which may be no such name: as it is without backticks."""
    return (parts_of(name) or [name])[-1]


def is_name(name: str, what: str) -> bool:
    """Whether a database or table that is there has a name by which it can be asked for: folders and other programs
    have more of them."""
    return _fault(name, what) is None and not (what == "table" and "$" in name)


def check_name(name: str, what: str) -> None:
    """InvalidError for a database or table name that cannot be a folder."""
    fault = _fault(name, what)
    if fault is not None:
        raise InvalidError(
            f"not a {what} name", name=repr(name)[:100], reason=fault, remedy="use letters, digits, '_' and '-'"
        )


def _fault(name: str, what: str) -> str | None:
    if isinstance(name, str) and not name.strip():
        return "it is blank"
    return fault_of(name) or fault_of(f"{name}{DATABASE_SUFFIX}" if what == "database" else name)
