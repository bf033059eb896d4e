"""The two ways to write a table's keys and options: Spark's TBLPROPERTIES and Flink's WITH."""

from __future__ import annotations

from tests.profile import first

SPELLINGS = first(["TBLPROPERTIES", "WITH"], 1)  # what they mean is told apart in sql/


def options(spelling: str, values: dict[str, str]) -> str:
    """The options clause."""
    listed = ", ".join(f"'{key}'='{value}'" for key, value in values.items())
    return f"{spelling} ({listed})" if values else ""


def create(spelling: str, name: str, columns: str, key: str = "", partition: str = "", **values: str) -> str:
    """CREATE TABLE in one of the spellings; option names with _ for -."""
    given = {k.replace("_", "-"): v for k, v in values.items()}
    if key and spelling == "WITH":
        columns += f", PRIMARY KEY ({key}) NOT ENFORCED"
    elif key:
        given = {"primary-key": key, **given}
    partitioned = f"PARTITIONED BY ({partition}) " if partition else ""
    return f"CREATE TABLE {name} ({columns}) {partitioned}{options(spelling, given)}"
