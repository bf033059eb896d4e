"""Commands that change: what they do, what they ask before, what a rehearsal tells; text, JSON and exit status."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import ORDERS, Run

import bucketlake
from bucketlake.cli import output
from bucketlake.ops.check import advise as advising
from bucketlake.schema.change import SetOption
from bucketlake.table import Table


def fingerprint(root: str) -> dict[str, str]:
    """All files and what is in them."""
    files = [path for path in Path(root).rglob("*") if path.is_file()]
    return {path.as_posix(): hashlib.sha1(path.read_bytes()).hexdigest() for path in files}


def test_rewriting(run: Run, own: str) -> None:
    merged = run("compact", "db.orders", warehouse=own)
    assert (merged.status, "snapshot 4, 6 files -> 2" in merged.out) == (0, True)
    assert "nothing to do" in run("compact", "db.orders", warehouse=own).out
    nothing = run("compact", "db.orders", "--json", warehouse=own).json
    assert (nothing["table"], nothing["snapshot"], nothing["files"]) == ("db.orders", None, 2)
    wider = run("rescale", "db.orders", "--buckets", "3", "--json", warehouse=own).json
    assert (wider["snapshot"], wider["files_before"]) == (5, 2)
    assert run("fsck", "db.orders", "--level", "rows", warehouse=own).status == 0
    again = run("rescale", "db.orders", "--buckets", "2", warehouse=own)
    assert again.out.endswith("\neach partition that was rescaled has 2 buckets now\n")
    same = run("rescale", "db.orders", warehouse=own)
    assert "nothing to do, each partition has 2 buckets already\n  do: name another number, --buckets N" in same.out
    assert run("rescale", "db.orders", "--json", warehouse=own).json["snapshot"] is None
    ordered = run("cluster", "db.days", "--by", "n", "--json", warehouse=own).json
    assert ordered["snapshot"] == 4
    assert run("compact", "db.days", "-p", "day=a", "--json", warehouse=own).status == 0
    assert run("compact", "db.days", "-p", "day", warehouse=own).status == 2
    for taken in ("full=1", "on_progress=1"):  # arguments of the call, and no options
        assert "no such option" in run("compact", "db.days", "--option", taken, warehouse=own).err
    assert run("compact", "db.days", "--order", "zorder", warehouse=own).status == 2
    assert run("compact", "db.orders$files", warehouse=own).status == 1


def test_expiry_is_rehearsed_exactly(run: Run, own: str) -> None:
    run("compact", "db.orders", warehouse=own)
    limits = ("--retain-max", "1", "--retain-min", "1")
    before = fingerprint(own)
    told = run("expire", "db.orders", *limits, "--dry-run", "--json", warehouse=own).json
    assert fingerprint(own) == before
    assert (told["dry_run"], told["snapshots"]) == (True, 3)
    asked = run("expire", "db.orders", *limits, warehouse=own)
    assert (asked.status, "this asks first" in asked.err) == (1, True)
    assert fingerprint(own) == before
    done = run("expire", "db.orders", *limits, "--yes", "--json", warehouse=own).json
    assert {**done, "dry_run": True, "bytes": told["bytes"]} == told
    assert run("snapshots", "db.orders", "--json", warehouse=own).json[0]["snapshot"] == 4
    assert run("expire", "db.orders", "--only", "rows", warehouse=own).status == 2
    assert "or an age: '7 d'" in run("expire", "db.orders", "--older-than", "x", warehouse=own).err
    few = run("expire", "db.orders", "--retain-max", "1", warehouse=own)
    assert (few.status, "(--retain-min, else snapshot.num-retained.min)" in few.err) == (1, True)
    assert "nothing to remove" in run("expire", "db.orders", *limits, "--dry-run", warehouse=own).out
    assert run("expire", "db.orders", "--only", "tags", "--older-than", "2999-01-01", "-y", warehouse=own).status == 0
    assert run("tags", "db.orders", "--json", warehouse=own).json == []


def test_a_question_is_asked_on_a_terminal(run: Run, own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = output.is_terminal
    monkeypatch.setattr(output, "is_terminal", lambda stream: stream is sys.stdin or real(stream))
    no = run("drop", "db.days", warehouse=own, stdin="no\n")
    assert (no.status, "[y/N]" in no.err) == (1, True)
    assert run("drop", "db.days", warehouse=own, stdin="").status == 1
    assert run("drop", "db.days", warehouse=own, stdin="yes\n").status == 0
    assert run("tables", "db", "--json", warehouse=own).json[0]["table"] == "orders"


def test_orphans(run: Run, own: str) -> None:
    stray = Path(own, "db.db", "orders", "bucket-0", "data-stray-0.parquet")
    stray.write_bytes(b"x" * 10)
    assert "no orphan files" in run("orphans", "db.orders", "--dry-run", warehouse=own).out
    found = run("orphans", "db.orders", "--older-than", "0 ms", "--dry-run", "--json", warehouse=own)
    if found.status == 0:  # a clock that stood still says that the file is not past
        assert (found.json["files"], found.json["bytes"], found.json["dry_run"]) == (1, 10, True)
    assert stray.exists()
    assert (
        run("orphans", "db.orders", "--older-than", "2020-01-01", "--yes", "--json", warehouse=own).json["files"] == 0
    )


def test_findings_are_exit_status_one(run: Run, own: str) -> None:
    whole = run("fsck", "db.days", warehouse=own)
    assert (whole.status, "is whole" in whole.out) == (0, True)
    lost = next(Path(own, "db.db", "days", "day=b", "bucket-0").glob("*.parquet"))
    lost.unlink()
    told = run("fsck", "db.days", "--json", warehouse=own)
    assert told.status == 1
    assert (told.json["errors"], told.json["findings"][0]["code"]) == (1, "data-file-missing")
    text = run("fsck", "db.days", warehouse=own)
    assert (text.status, "--repair --level metadata --allow data-file-missing" in text.out) == (1, True)
    allow = ("--repair", "--allow", "data-file-missing")
    dry = run("fsck", "db.days", *allow, "--dry-run", "--json", warehouse=own)
    assert (dry.status, dry.json["repaired_by"]) == (1, None)
    assert run("fsck", "db.days", *allow, warehouse=own).status == 1
    done = run("fsck", "db.days", *allow, "--yes", "--json", warehouse=own)
    assert (done.json["findings"][0]["state"], done.json["repaired_by"]) == ("mended", 4)
    assert run("fsck", "db.days", "--level", "deep", warehouse=own).status == 2
    assert run("fsck", "db.days", "--dry-run", warehouse=own).status == 2


def test_advice(run: Run, own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advising, "LITTLE", 0)
    assert run("advise", "empty", "--json", warehouse=own).json == []
    run("rescale", "db.orders", "--buckets", "3", warehouse=own)
    advice = run("advise", "db.orders", "--json", warehouse=own).json
    assert {one["topic"] for one in advice} >= {"options"}
    for _ in range(3):
        run("rescale", "db.orders", "--buckets", "2", warehouse=own)
        run("rescale", "db.orders", "--buckets", "3", warehouse=own)
    told = run("advise", "db.orders", warehouse=own).out
    assert f"do: bucketlake expire -w {own} db.orders --retain-max " in told
    assert f"do: bucketlake rescale -w {own} db.orders --buckets 2\n" in told  # the option bucket is still 2
    bucketlake.open(own).table("db.orders").alter(SetOption("snapshot.expire.limit", "2"))
    told = run("advise", "db.orders", warehouse=own).out
    (command,) = (line for line in told.splitlines() if "bucketlake expire" in line)
    assert (
        "the same command, or --max-deletes, removes more"
        in run("expire", "db.orders", "--retain-max", "5", "--retain-min", "5", "--dry-run", warehouse=own).out
    )
    words = shlex.split(command.partition("bucketlake ")[2])
    done = run(*(word for word in words if word not in ("-w", own)), "--yes", warehouse=own).out
    assert "removed " in done and "removes more" not in done
    kept = int(words[words.index("--retain-max") + 1])
    assert len(run("snapshots", "db.orders", "--json", warehouse=own).json) == kept


def test_all_tables_are_checked_and_advised(run: Run, own: str) -> None:
    """A sick table stops no other; what is only worth knowing is no failure."""
    whole = run("fsck", "--json", warehouse=own)
    told = [json.loads(line) for line in whole.out.splitlines()]
    assert (whole.status, [one["table"] for one in told]) == (0, ["db.days", "db.orders", "default.empty"])
    stray = Path(own, "db.db", "days", "day=b", "bucket-0", "data-stray-0.parquet")
    stray.write_bytes(b"x")
    os.utime(stray, (0, 0))
    known = run("fsck", "db.days", "--json", warehouse=own)
    assert (known.status, known.json["findings"][0]["code"]) == (0, "orphan-file")
    assert "orphan-file" in run("fsck", warehouse=own).out
    for schema in Path(own, "db.db", "days", "schema").iterdir():
        schema.write_text("{")
    sick = run("fsck", warehouse=own)
    assert sick.status == 1 and "db.orders is whole" in sick.out and "default.empty is whole" in sick.out
    assert "table=db.days" in sick.err and sick.err.count("error:") == 1
    assert run("fsck", "--tables", "db[.]o.*", warehouse=own).status == 0
    assert run("fsck", "--excluding", "db[.]days", warehouse=own).status == 0
    run("rescale", "db.orders", "--buckets", "3", warehouse=own)
    advice = run("advise", "--json", warehouse=own)
    assert advice.status == 1 and {one["table"] for one in advice.json} == {"db.orders"}
    assert advice.error["place"]["table"] == "db.days"
    lines = run("advise", "--tables", "db[.]orders", "--format", "jsonl", warehouse=own)
    assert lines.status == 0 and {json.loads(one)["table"] for one in lines.out.splitlines()} == {"db.orders"}
    text = run("advise", warehouse=own)
    assert text.status == 1 and text.out.startswith("db.orders: ")
    assert run("advise", "--tables", "no such", warehouse=own).status == 1
    for words in (("db.days", "--tables", "x"), ("--tables", "("), ("--branch", "b"), ("--snapshot", "1")):
        assert run("fsck", *words, warehouse=own).status == 2, words


def test_what_to_do_is_a_command_that_a_shell_takes(run: Run, own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advising, "LITTLE", 0)
    catalog, name = bucketlake.open(own), '`db`.`it\'s "a" table`'
    odd = catalog.create_table(name, ORDERS, [], ["id"], {"bucket": 1, "num-sorted-run.compaction-trigger": 2})
    at = [datetime(2026, 1, 1)] * 3
    odd.reset_consumer("o'clock", None)
    for k in range(12):
        odd.write_arrow({"id": [k, k + 1, k + 2], "city": ["Oslo", "Rome", "Bonn"], "at": at})
    odd.reset_consumer("o'clock", 1)
    told = run("advise", name, warehouse=own).out
    (step,) = [line.removeprefix("  do: ") for line in told.split("\n") if "consumer delete" in line]
    words = shlex.split(step)
    assert words == ["bucketlake", "consumer", "delete", "-w", own, 'db.it\'s "a" table', "o'clock"]
    assert "reads snapshot 1 next, keeps them" in told
    held = run("expire", name, "--retain-max", "1", "--retain-min", "1", "--yes", warehouse=own).out
    assert held.startswith("nothing to remove\nconsumer o'clock reads snapshot 1 next")
    assert shlex.split(held.split("  do: ")[1]) == ["bucketlake", "consumers", "-w", own, name]
    assert run(*words[1:], "--yes").status == 0
    told = run("advise", name, warehouse=own).out
    (step,) = [line.removeprefix("  do: ") for line in told.split("\n") if "bucketlake expire" in line]
    assert run(*shlex.split(step)[1:], "--yes").out.startswith("removed ")


def test_consumers_move_and_are_forgotten(run: Run, own: str) -> None:
    assert run("consumer", "reset", "db.orders", "c", "2", "--json", warehouse=own).json["next_snapshot"] == 2
    table = run("consumers", "db.orders", warehouse=own).out.split("\n")
    assert table[1].split() == ["c", "2", "2"]
    assert run("consumer", "reset", "db.orders", "c", "99", warehouse=own).status == 1
    assert run("consumer", "reset", "db.orders", "c", "two", warehouse=own).status == 2
    assert run("consumer", "delete", "db.orders", "c", "--dry-run", warehouse=own).out.startswith("would forget")
    missing = run("consumer", "delete", "db.orders", "d", "--yes", warehouse=own)
    assert (missing.status, "consumers: c" in missing.err) == (1, True)
    assert run("consumer", "delete", "db.orders", "c", "--yes", warehouse=own).status == 0
    assert run("consumers", "db.orders", "--json", warehouse=own).json == []


def test_what_fsck_cannot_get_past_does_not_lead_to_fsck(run: Run, own: str) -> None:
    Path(f"{own}/db.db/days/schema/schema-0").write_text("{")
    assert "do: bucketlake fsck" in run("cat", "db.days", warehouse=own).err
    for words in (["fsck", "db.days"], ["fsck"]):
        told = run(*words, warehouse=own)
        assert (told.status, "restore the file from a copy" in told.err, "bucketlake fsck" in told.err) == (
            1,
            True,
            False,
        )


def test_damage_leads_to_fsck_and_fsck_to_what_mends_it(run: Run, own: str) -> None:
    lost = next(Path(own, "db.db", "days", "day=b", "bucket-0").glob("*.parquet"))
    lost.unlink()
    failed = run("cat", "db.days", warehouse=own)
    assert (failed.status, "bucketlake fsck" in failed.err.split("  do: ")[1]) == (1, True)
    mends = run("fsck", "db.days", warehouse=own).out
    assert f"bucketlake fsck -w {own} db.days --repair --level metadata --allow data-file-missing\n" in mends
    newest = Path(own, "db.db", "orders", "snapshot", "snapshot-3")
    newest.write_text('{"version": 3, "id"')
    failed = run("describe", "db.orders", "--json", warehouse=own)
    assert (failed.status, failed.error["remedy"]) == (1, f"bucketlake fsck -w {own} db.orders")
    found = run("fsck", "db.orders", warehouse=own)
    assert (found.status, found.err) == (1, "")
    assert "error newest-broken: not a snapshot" in found.out
    step = shlex.split(found.out.split("restore the file from a copy, or ")[1].splitlines()[0])
    assert run(*step[1:], warehouse=own).status == 1  # it asks first
    assert run(*step[1:], "--yes", warehouse=own).status == 0
    assert run("cat", "db.orders", "--json", warehouse=own).status == 0
    assert run("fsck", "db.orders", warehouse=own).status == 0
    Path(own, "db.db", "orders", "snapshot", "snapshot-2").write_text("")
    assert "removed 1 snapshot" in run("rollback", "db.orders", "1", "--yes", warehouse=own).out
    Path(own, "db.db", "orders", "schema", "schema-0").unlink()
    failed = run("fsck", "db.orders", warehouse=own)
    assert "holds snapshots, but no schema" in failed.err


def test_tables_come_and_go(run: Run, own: str) -> None:
    columns = "id BIGINT NOT NULL COMMENT 'the key', `odd name` ARRAY<STRING>, at TIMESTAMP(3)"
    words = ("shop.t", "--columns", columns, "--key", "id", "--option", "bucket=1", "--comment", "c")
    assert run("create", *words, "--json", warehouse=own).json == {"table": "shop.t", "created": True}
    made = bucketlake.open(own).table("shop.t").schema
    assert (made.primary_keys, made.options["bucket"], made.comment) == (("id",), "1", "c")
    described = run("describe", "shop.t", "--json", warehouse=own).json["columns"]
    assert [one["type"] for one in described] == ["BIGINT", "ARRAY<STRING>", "TIMESTAMP(3)"]
    assert run("create", *words, warehouse=own).status == 1
    assert run("create", *words, "--if-not-exists", warehouse=own).status == 0
    assert run("create", "u", "--columns", "id NOPE", warehouse=own).status == 1
    assert run("drop", "shop.t", "--dry-run", "--json", warehouse=own).json["dropped"] is False
    assert run("drop", "shop.t", warehouse=own).status == 1
    assert run("drop", "shop.t", "--yes", "--json", warehouse=own).json["dropped"] is True
    assert run("drop", "shop.t", "--yes", warehouse=own).status == 1
    assert run("drop", "shop.t", "--yes", "--if-exists", warehouse=own).status == 0
    assert run("drop", "db.orders$branch_dev", "--yes", warehouse=own).status == 1


def test_tags_and_branches(run: Run, own: str) -> None:
    made = run("tag", "create", "db.orders", "v2", "--snapshot", "2", "--keep", "7 d", "--json", warehouse=own).json
    assert made == {"table": "db.orders", "tag": "v2", "snapshot": 2}
    assert run("tags", "db.orders", "--json", warehouse=own).json[1]["kept_for"] == "PT168H"
    assert run("tag", "create", "db.orders", "v2", warehouse=own).status == 1
    assert run("tag", "create", "db.orders", "v2", "--replace", "--json", warehouse=own).json["snapshot"] == 3
    assert "would remove" in run("tag", "delete", "db.orders", "v2", "--dry-run", warehouse=own).out
    assert run("tag", "delete", "db.orders", "v2", warehouse=own).status == 1
    assert run("tag", "delete", "db.orders", "v2", "-y", warehouse=own).status == 0
    gone = run("tag", "delete", "db.orders", "v2", "-y", warehouse=own)
    assert (gone.status, "v1" in gone.err) == (1, True)
    assert run("branch", "create", "db.orders", "x", "--tag", "v1", "--json", warehouse=own).json["branch"] == "x"
    assert (
        "db.orders, without rows: --tag makes one of" in run("branch", "create", "db.orders", "none", warehouse=own).out
    )
    run("branch", "delete", "db.orders", "none", "--yes", warehouse=own)
    dry = run("branch", "fast-forward", "db.orders", "x", "--dry-run", warehouse=own)
    assert (dry.status, "would replace 3 snapshots" in dry.out) == (0, True)
    assert run("branch", "fast-forward", "db.orders", "x", "--yes", warehouse=own).status == 0
    assert len(run("snapshots", "db.orders", "--json", warehouse=own).json) == 1
    assert run("branch", "delete", "db.orders", "x", "--yes", warehouse=own).status == 0
    assert run("branch", "delete", "db.orders", "x", "--yes", warehouse=own).status == 1
    assert run("tag", warehouse=own).status == 2


def test_going_back(run: Run, own: str) -> None:
    before = fingerprint(own)
    dry = run("rollback", "db.orders", "1", "--dry-run", "--json", warehouse=own).json
    assert (dry["snapshot"], dry["removed"], dry["tags"]) == (1, [2, 3], [])
    assert run("rollback", "db.orders", "2", warehouse=own).status == 1
    assert fingerprint(own) == before
    run("tag", "create", "db.orders", "1", warehouse=own)  # of snapshot 3: CALL sys.rollback reads numbers as ids, too
    dry = run("rollback", "db.orders", "1", "--dry-run", "--json", warehouse=own).json
    assert (dry["snapshot"], dry["tags"]) == (1, ["1"])
    diff = [run("diff", "db.orders", first, "3", "--json", warehouse=own).json for first in ("1", "v1")]
    assert diff[0] == diff[1] != []
    run("tag", "delete", "db.orders", "1", "--yes", warehouse=own)
    assert run("rollback", "db.orders", "v1", "--as-latest", "--json", warehouse=own).json["snapshot"] == 4
    assert run("rollback", "db.orders", "2", "--yes", "--json", warehouse=own).json["removed"] == [3, 4]
    assert run("rollback", "db.orders", "--as-of", "2999-01-01", "--yes", "--json", warehouse=own).json["snapshot"] == 2
    assert run("rollback", "db.orders", "77", "--yes", warehouse=own).status == 1
    assert run("rollback", "db.orders", warehouse=own).status == 2


def test_watch(run: Run, own: str, tmp_path: Path) -> None:
    pass_ = run("watch", "--once", "--json", "--tables", "db[.]orders", "--only", "compact,expire_tags", warehouse=own)
    lines = pass_.out.splitlines()
    assert pass_.status == 0
    assert ['"kind": "leads"' in lines[0], len(lines)] == [True, 3]
    idle = run("watch", "--once", "--only", "expire_tags", warehouse=own)
    assert idle.out.splitlines()[-1] == "nothing was due"
    rules = tmp_path / "rules.json"
    rules.write_text('[{"action": "compact", "full": true}]')
    done = run("watch", "--once", "--rules", str(rules), warehouse=own)
    assert (done.status, "did compact db.orders" in done.out) == (0, True)
    rules.write_text("{}")
    assert run("watch", "--rules", str(rules), warehouse=own).status == 1
    assert run("watch", "--only", "nope", warehouse=own).status == 2


def test_a_pass_that_is_stopped_is_not_taken_for_a_whole_one(
    run: Run, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(table: Table, **how: Any) -> list[str]:
        os.kill(os.getpid(), signal.SIGTERM)
        return []

    monkeypatch.setattr(Table, "expire_tags", ended)
    done = run("watch", "--once", "--only", "expire_tags", "--json", warehouse=own)
    assert done.status == 1 and '"stopped"' in done.out.splitlines()[-1]


def test_an_interrupt_says_what_is_kept(run: Run, own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        bucketlake.open(own).table("db.days").write_arrow({"day": ["z"], "n": [1]})
        raise KeyboardInterrupt

    monkeypatch.setattr("bucketlake.table.Table.compact", stopped)
    result = run("compact", "db.days", warehouse=own)
    assert (result.status, "at snapshot 4, and was at 3" in result.err) == (130, True)


@pytest.mark.parametrize(
    ("words", "stopped", "said"),
    [
        ("drop db.days -y", "catalog.Catalog.drop_table", "drop it again"),
        ("rollback db.orders 1 -y", "table.Table.rollback_to", "the same command finishes it"),
        ("tag create db.orders v2", "table.Table.create_tag", "look whether tag v2 is there"),
        ("branch delete db.orders dev -y", "table.Table.delete_branch", "delete it again"),
        ("branch fast-forward db.orders dev -y", "table.Table.fast_forward", "the same command finishes it"),
        ("expire db.orders --retain-max 1 --retain-min 1 -y", "table.Table.expire_snapshots", "removes the rest"),
        ("orphans db.orders -y", "table.Table.remove_orphan_files", "removes the rest"),
    ],
)
def test_an_interrupt_never_says_that_nothing_was_changed_where_something_may_be(
    run: Run, own: str, monkeypatch: pytest.MonkeyPatch, words: str, stopped: str, said: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"bucketlake.{stopped}", interrupted)
    result = run(*words.split(), warehouse=own)
    assert (result.status, said in result.err) == (130, True), result.err


def test_a_damaged_table_can_be_dropped(run: Run, own: str) -> None:
    folder = Path(own) / "db.db" / "days"
    (folder / "schema" / "schema-0").write_text("{")
    assert "which cannot be read (not a schema file)" in run("drop", "db.days", "--dry-run", warehouse=own).out
    assert (run("drop", "db.days", "-y", warehouse=own).status, folder.exists()) == (0, False)
