"""`docs/sql/README.md` names every statement, procedure, system table, metadata column and option of the connector."""

from __future__ import annotations

from tests.docs import sql_index

from bucketlake.sql.statements import ROOMS


def test_the_index_is_what_the_code_says() -> None:
    assert sql_index.PAGE.read_text() == sql_index.page(), "run: python -m tests.docs.sql_index"


def test_every_statement_that_has_a_room_is_listed() -> None:
    listed = {words for words, *_ in sql_index.STATEMENTS}
    assert set(ROOMS) <= listed


def test_every_page_is_named() -> None:
    text = sql_index.page()
    for path in sql_index.PAGE.parent.glob("*.md"):
        assert path.name == "README.md" or f"]({path.name}" in text, path.name
