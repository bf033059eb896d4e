"""The three classes of options, derived from the code: what is honoured is read, what is kept is harmless."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

import bucketlake
from bucketlake.errors import UnsupportedError
from bucketlake.options import model
from bucketlake.options.options import _FIELD_KEYS, FAMILIES, OPTIONS, find_option, validate

SOURCES = Path(bucketlake.__file__).parent
# Modules that list, check or rename options: what stands only there has no effect.
CHECKS = re.compile(r"_check|_?refuse|validate")
# Upstream's keys (2.0.0) that change rows, the layout of files, or the upkeep of a table.
CHANGING = [
    "aggregation.remove-record-on-delete",
    "auto-create",
    "blob-descriptor-field",
    "blob-field",
    "blob-view-field",
    "branch",
    "bucket",
    "bucket-function.type",
    "bucket-key",
    "chain-table.enabled",
    "changelog-file.compression",
    "changelog-file.format",
    "changelog-file.prefix",
    "changelog-file.stats-mode",
    "changelog-producer",
    "changelog-producer.row-deduplicate",
    "changelog-producer.row-deduplicate-ignore-fields",
    "changelog.num-retained.max",
    "changelog.num-retained.min",
    "changelog.time-retained",
    "clustering.columns",
    "clustering.history-partition.idle-to-full-sort",
    "clustering.history-partition.limit",
    "clustering.incremental",
    "clustering.incremental.mode",
    "clustering.incremental.optimize-write",
    "clustering.strategy",
    "commit.callbacks",
    "commit.custom-listeners",
    "commit.discard-duplicate-files",
    "commit.force-compact",
    "commit.force-create-snapshot",
    "compaction.skip-expired-partitions",
    "consumer.expiration-time",
    "data-evolution.enabled",
    "data-file.external-paths.strategy",
    "data-file.path-directory",
    "data-file.prefix",
    "data-file.thin-mode",
    "deletion-vectors.bitmap64",
    "deletion-vectors.enabled",
    "deletion-vectors.merge-on-read",
    "dynamic-bucket.max-buckets",
    "dynamic-bucket.target-row-num",
    "dynamic-partition-overwrite",
    "end-input.check-partition-expire",
    "fields.default-aggregate-function",
    "file.compression",
    "file.format",
    "file.format.per.level",
    "file.suffix.include.compression",
    "ignore-delete",
    "ignore-update-before",
    "incremental-between",
    "index-file-in-data-file-dir",
    "lookup.remote-file.enabled",
    "lookup.remote-file.level-threshold",
    "manifest-sort.enabled",
    "manifest-sort.max-rewrite-size",
    "manifest-sort.partition-field",
    "manifest.compression",
    "manifest.format",
    "merge-engine",
    "metadata.iceberg.storage",
    "metadata.stats-mode",
    "partial-update.remove-record-on-delete",
    "partition.default-name",
    "partition.end-input-to-done",
    "partition.expiration-batch-size",
    "partition.expiration-check-interval",
    "partition.expiration-max-num",
    "partition.expiration-strategy",
    "partition.expiration-time",
    "partition.idle-time-to-done",
    "partition.legacy-name",
    "partition.mark-done-action",
    "partition.mark-done-action.custom.class",
    "partition.mark-done-action.http.params",
    "partition.mark-done-action.http.url",
    "partition.mark-done-action.mode",
    "partition.sink-strategy",
    "partition.time-interval",
    "partition.timestamp-format.strict",
    "partition.timestamp-formatter",
    "partition.timestamp-pattern",
    "path",
    "pk-bitmap.index.columns",
    "pk-btree.index.columns",
    "pk-clustering-override",
    "pk-full-text.index.columns",
    "pk-vector.index.columns",
    "postpone.batch-write-fixed-bucket",
    "postpone.merge-on-read",
    "precommit-compact",
    "primary-key",
    "query-auth.enabled",
    "read.changelog",
    "record-level.expire-time",
    "record-level.time-field",
    "row-tracking.enabled",
    "rowkind.field",
    "scan.bucket",
    "scan.creation-time-millis",
    "scan.fallback-branch",
    "scan.file-creation-time-millis",
    "scan.ignore-corrupt-files",
    "scan.mode",
    "scan.partitions",
    "scan.plan-auto-tag-for-read.time-retained",
    "scan.primary-branch",
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.timestamp",
    "scan.timestamp-millis",
    "scan.version",
    "scan.watermark",
    "sequence.field",
    "sequence.field.sort-order",
    "sequence.snapshot-ordering",
    "sink.process-time-zone",
    "sink.watermark-time-zone",
    "snapshot.ignore-empty-commit",
    "snapshot.num-retained.max",
    "snapshot.num-retained.min",
    "snapshot.time-retained",
    "snapshot.watermark-idle-timeout",
    "sort-compaction.local-sample.magnification",
    "sort-compaction.range-strategy",
    "tag.automatic-completion",
    "tag.automatic-creation",
    "tag.batch.customized-name",
    "tag.callbacks",
    "tag.create-success-file",
    "tag.creation-delay",
    "tag.default-time-retained",
    "tag.num-retained-max",
    "tag.time-expire-enabled",
    "target-file-row-num",
    "target-file-size",
    "type",
    "upsert-key",
    "vector-field",
    "visibility-callback.enabled",
    "write-only",
    "write.merge-schema",
    "write.sequence-number-init-mode",
    "zorder.var-length-contribution",
]


@cache
def _texts() -> tuple[frozenset[str], frozenset[str]]:
    """All texts of the package's code, and those that some code passes to a call, compares, or keeps under a name:
    without what only lists options and without functions that only check them."""
    found: set[str] = set()
    read: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        if path.parent.name != "options":
            _take(ast.parse(path.read_text()), False, found, read)
    return frozenset(found), frozenset(read)


def _take(node: ast.AST, is_read: bool, found: set[str], read: set[str]) -> None:
    if isinstance(node, ast.FunctionDef) and CHECKS.match(node.name):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        found.add(node.value)
        if is_read:
            read.add(node.value)
    reading = _read_of(node)
    for child in ast.iter_child_nodes(node):
        _take(child, is_read or any(child is value for value in reading), found, read)


def _read_of(node: ast.AST) -> Sequence[ast.AST]:
    if isinstance(node, ast.Call):
        return [*node.args, *node.keywords]
    if isinstance(node, (ast.Assign, ast.Subscript)):
        values = [node.value if isinstance(node, ast.Assign) else node.slice]
        return [value for value in values if not isinstance(value, (ast.Tuple, ast.List, ast.Set, ast.Dict))]
    return [node.iter] if isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple) else []


@pytest.mark.parametrize("key", [key for key, row in OPTIONS.items() if row.effect == "honoured"])
def test_what_is_honoured_is_read_somewhere(key: str) -> None:
    assert key in _texts()[1], f"'{key}' is called honoured and no code reads it"


@pytest.mark.parametrize("key", [key for key, row in OPTIONS.items() if row.effect == "kept"])
def test_what_is_kept_is_harmless_for_a_reason(key: str) -> None:
    effect = OPTIONS[key].effect
    assert effect.why
    if effect.only_with:
        assert OPTIONS[effect.only_with].effect == "refused"
    assert key not in _texts()[1], f"'{key}' is called kept and code reads it"


@pytest.mark.parametrize("key", [key for key, row in OPTIONS.items() if row.effect == "refused"])
def test_what_is_refused_says_what_is_at_stake(key: str) -> None:
    assert OPTIONS[key].effect.stake in ("reads", "writes", "upkeep", "calls")
    master = OPTIONS[key].effect.only_with
    assert not master or OPTIONS[master].effect == "refused"


@pytest.mark.parametrize("key", CHANGING)
def test_what_changes_rows_files_or_upkeep_is_honoured_or_refused(key: str) -> None:
    assert OPTIONS[key].effect in ("honoured", "refused")


def test_families() -> None:
    texts, _ = _texts()
    for suffix in _FIELD_KEYS:
        assert any(text.endswith(suffix) for text in texts), f"no code reads fields.<column>.{suffix}"
    for pattern, effect in FAMILIES:
        assert effect != "kept" or effect.why, pattern.pattern
        assert effect != "refused" or effect.stake, pattern.pattern
    for key, effect in {
        "parquet.bloom.filter.enabled": "kept",
        "parquet.compression#a": "honoured",
        "parquet.encryption.footer.key": "refused",
        "orc.bloom.filter.columns": "kept",
        "metadata.iceberg.table": "refused",
        "fields.a.aggregate-function": "honoured",
        "sink.anything-of-flink": "kept",
    }.items():
        option = find_option(key)
        assert option is not None and option.effect == effect, key


def _another_value(key: str) -> str:
    """A well-formed value that is not the default."""
    row = OPTIONS[key]
    if row.kind == "bool":
        return "false" if row.default == "true" else "true"
    if row.kind == "enum":
        return next(value for value in row.values if value != row.default)
    return {"int": "7", "float": "0.25", "memory": "77 mb", "duration": "7 d"}.get(row.kind, "something")


@pytest.mark.parametrize("key", [key for key, row in OPTIONS.items() if row.effect == "refused"])
def test_setting_a_refused_option_names_it_and_says_what_to_do(key: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(f"'{key}'")) as caught:
        validate({key: _another_value(key)})
    assert caught.value.remedy
    default = OPTIONS[key].default
    if default is not None:
        assert validate({key: default}) == []


def test_texts_that_may_be_secrets_are_not_shown() -> None:
    with pytest.raises(UnsupportedError) as caught:
        validate({"partition.mark-done-action.custom.class": "token=hunter2"})
    assert "hunter2" not in str(caught.value)


def test_an_effect_is_its_name() -> None:
    assert model.of("a") == "kept" and model.upkeep("b").stake == "upkeep"
