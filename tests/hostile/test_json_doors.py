"""Texts of JSON beside a table's own metadata (notes, caches, configuration, rules, what a registry says) that nest without
end, or hold what no text or number of theirs is: an error that names them, or nothing is known of them."""

from __future__ import annotations

import json
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import CorruptError, InvalidError
from bucketlake.cdc.avro import schemas
from bucketlake.cli import settings
from bucketlake.cli.app import run
from bucketlake.env.env import Env
from bucketlake.format.guard import LARGEST_LONG
from bucketlake.format.index.key_index import decode_key_index
from bucketlake.maintenance.lease import FOLDER, Lease
from bucketlake.maintenance.rules import rules_of
from bucketlake.ops.commit.loads import SourceFile, loaded
from bucketlake.ops.stream.journal import Journal
from bucketlake.ops.stream.position import Position
from bucketlake.spark.stream.checkpoint import Checkpoint, Noted

NESTED = '{"a":' + "[" * 4000


@pytest.fixture
def table(tmp_path: Path) -> bucketlake.Table:
    return bucketlake.open(tmp_path).create_table("t", pa.schema([("x", pa.int64())]))


@pytest.mark.parametrize("body", [NESTED, "[]", '{"version": 2}', '{"version": 2, "layers": 5}'])
def test_a_cached_key_index(body: str) -> None:
    data = json.dumps({"checksum": crc32(body.encode())}) + "\n" + body
    for each in (data, NESTED + "\n" + body):
        with pytest.raises(CorruptError, match="of/it"):
            decode_key_index(each.encode(), "of/it")


def test_a_note_of_a_stream(table: bucketlake.Table) -> None:
    path = Path(table.store.paths.stream("q"))
    path.parent.mkdir(parents=True)
    path.write_text(NESTED)
    (found,) = table.report.activity().streams
    assert (found.query, found.batch) == ("q", None)


@pytest.mark.parametrize("value", ["1e999", "[" * 4000, '"x"', "[]"])
def test_the_watermark_in_a_checkpoint(tmp_path: Path, value: str) -> None:
    note = f'v1\n{{"batchWatermarkMs": {value}}}\n{{}}'
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(note)
    found = Checkpoint(str(tmp_path)).noted(0)
    assert isinstance(found, Noted) and found.watermark is None and found.fingerprint


def test_what_an_intent_of_copy_into_names(table: bucketlake.Table) -> None:
    path = Path(table.store.paths.load_intents_dir) / "load-x"
    path.parent.mkdir(parents=True)
    file = {"filePath": "\ud800", "fileSize": 1, "lastModified": 1, "rowsLoaded": 1}
    path.write_text(json.dumps({"version": 1, "commitUser": "u", "branch": "main", "base": 0, "files": [file]}))
    with pytest.raises(CorruptError, match=r"load-x.*filePath"):
        loaded(table.store, [SourceFile("file:/a.csv", 1, 1)])


def test_configuration_and_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(NESTED)
    monkeypatch.setenv(settings.VARIABLE, str(path))
    with pytest.raises(InvalidError, match=r"not a configuration.*config\.json"):
        settings.load()
    monkeypatch.setenv(settings.VARIABLE, str(tmp_path / "none.json"))
    assert run(["watch", "-w", str(tmp_path), "--once", "--rules", str(path)]) == 1
    assert "not JSON" in capsys.readouterr().err


@pytest.mark.parametrize(
    "rule",
    [
        {"tables": 5},
        {"excluding": None},
        {"every": 5},
        {"idle": 5},
        {"sorted_runs": "3"},
        {"small_files": 1.5},
        {"options": [["a", "b"]]},
        {"action": ["compact"]},
    ],
    ids=str,
)
def test_members_of_rules(rule: dict[str, object]) -> None:
    with pytest.raises(InvalidError, match=next(iter(rule))):
        rules_of([{"action": "compact", **rule}])


def test_the_last_number_of_a_lease_and_of_a_batch(tmp_path: Path) -> None:
    """Nothing could stand behind them: every maintainer would wait for ever, and a batch would be done again."""
    path = tmp_path / FOLDER / f"lease-{LARGEST_LONG}"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    with pytest.raises(CorruptError, match=path.name):
        Lease(Env(), str(tmp_path), "me", 60_000).hold()
    folder = tmp_path / "checkpoint"
    Journal(Env(), str(folder), "/t")
    for kind in ("offsets", "commits"):
        (folder / kind).mkdir(exist_ok=True)
        offset = Position(1).as_offset()
        (folder / kind / str(LARGEST_LONG)).write_text(json.dumps({"start": offset, "end": offset}))
    with pytest.raises(CorruptError, match=f"commits/{LARGEST_LONG}"):
        Journal(Env(), str(folder), "/t").begin(Position(1), Position(2))


@pytest.mark.parametrize("text", [NESTED, '{"type": "record"}', '{"type": "record", "fields": [5]}', "5"])
def test_what_a_schema_registry_says(text: str) -> None:
    with pytest.raises(bucketlake.BucketlakeError, match="id=7"):
        schemas(lambda number: text, [7])
