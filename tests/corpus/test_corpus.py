"""The corpus is whole: its digest holds, every table of the catalogue is in it, and its truths are readable."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import corpus
from tests.corpus.statements import DATABASE
from tests.corpus.tables import catalogue


def test_archive_holds_the_catalogue(tmp_path: Path) -> None:
    warehouse = corpus.unpack(tmp_path)
    names = sorted(table.name for table in catalogue())
    assert corpus.names() == names
    assert sorted(path.name for path in (warehouse / f"{DATABASE}.db").iterdir()) == names
    assert not list(warehouse.rglob("*.crc"))


def test_truths_agree_with_the_statements() -> None:
    for table in catalogue():
        truth = corpus.expected(table.name)
        assert (truth.covers, truth.statements) == (table.covers, list(table.statements)), "run tests.corpus.make"
        assert truth.rows == corpus.sort_rows(truth.rows) or "floats" in table.name
        assert table.versions.keys() <= truth.versions.keys()


def test_a_changed_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / corpus.ARCHIVE.name
    changed.write_bytes(corpus.ARCHIVE.read_bytes() + b"\0")
    monkeypatch.setattr(corpus, "ARCHIVE", changed)
    with pytest.raises(ValueError, match="sha256"):
        corpus.unpack(tmp_path / "into")


def test_values_survive_their_encoding() -> None:
    for name in corpus.names():
        for row in corpus.expected(name).rows:
            assert corpus.encode(corpus.decode(corpus.encode(row))) == corpus.encode(row)
