"""One behaviour of all storages: local files, memory, object stores on disk, S3 (where moto is installed)."""

from __future__ import annotations

import errno
import importlib.util
import io
import os
import pickle
import socket
import threading
import uuid
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore
import obstore.exceptions
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.object_store.process import served

from bucketlake.env import clients, local, object_store
from bucketlake.env.env import SystemClock
from bucketlake.env.http import Request, request
from bucketlake.env.local import LocalStorage
from bucketlake.env.object_store import ObjectStorage, open_env, overlaps, storage_for
from bucketlake.errors import AlreadyExistsError, InvalidError, NotFoundError, StorageError, UnsupportedError

KEY = "test"
ODD = ["p=a%2Fb%3Dc/x", "p=ü 🦭/y", "p=it%27s#/z", "p=a+b&c/x"]


@pytest.fixture(scope="session")
def s3():
    if importlib.util.find_spec("moto") is None:
        pytest.skip("moto is not installed")
    import boto3

    with served() as endpoint:
        client = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id=KEY, aws_secret_access_key=KEY, region_name="us-east-1"
        )
        client.create_bucket(Bucket="bucket")
        yield (
            client,
            {
                "s3.endpoint": endpoint,
                "s3.access-key": KEY,
                "s3.secret-key": KEY,
                "s3.path.style.access": "true",
            },
        )


@pytest.fixture(params=["local", "memory", "disk", "s3"])
def place(request, tmp_path):
    """A storage and an empty folder of it: names of `tmp_path` come again where what passed is removed."""
    fresh = f"{tmp_path.name}-{uuid.uuid4().hex}"
    if request.param == "local":
        return storage_for(str(tmp_path / "wh"))
    if request.param == "memory":
        return ObjectStorage("memory://wh"), f"memory://wh/{fresh}"
    if request.param == "disk":
        return ObjectStorage(f"file://{tmp_path}/store"), f"file://{tmp_path}/store/wh"
    return storage_for(f"s3://bucket/{fresh}/wh", request.getfixturevalue("s3")[1])


def test_write_read_and_ranges(place):
    storage, root = place
    storage.write(f"{root}/a", b"0123456789")
    assert storage.read(f"{root}/a") == b"0123456789"
    assert storage.read(f"{root}/a", 3) == b"3456789"
    assert storage.read(f"{root}/a", 3, 4) == b"3456"
    assert storage.read(f"{root}/a", 0, 2) == b"01"
    assert storage.read(f"{root}/a", 8, 100) == b"89"
    assert storage.read(f"{root}/a", 100) == b""
    assert storage.read(f"{root}/a", 2, 0) == b""
    storage.write(f"{root}/a", b"")
    assert storage.read(f"{root}/a") == b""


def test_several_ranges_of_a_file(place):
    storage, root = place
    storage.write(f"{root}/a", b"0123456789")
    assert storage.read_ranges(f"{root}/a", [(0, 2), (3, 0), (4, 3), (9, 1)]) == [b"01", b"", b"456", b"9"]
    assert storage.read_ranges(f"{root}/a", [(0, 2), (8, 100)]) == [b"01", b"89"]
    assert storage.read_ranges(f"{root}/a", [(0, 1), (10, 5), (100, 5)]) == [b"0", b"", b""]
    assert storage.read_ranges(f"{root}/a", []) == []
    with pytest.raises(NotFoundError):
        storage.read_ranges(f"{root}/nope", [(0, 1)])


def test_missing_files(place):
    storage, root = place
    for action in (storage.read, storage.open_input):
        with pytest.raises(NotFoundError, match="nope"):
            action(f"{root}/nope")
    with pytest.raises(NotFoundError):
        storage.read(f"{root}/nope", 5, 5)
    assert storage.info(f"{root}/nope") is None
    assert storage.list(f"{root}/nope") == []
    assert list(storage.walk(f"{root}/nope")) == []
    storage.delete(f"{root}/nope")
    storage.delete_tree(f"{root}/nope")
    with pytest.raises((NotFoundError, StorageError)):
        storage.rename(f"{root}/nope", f"{root}/b")


def test_a_name_is_given_once(place):
    storage, root = place
    assert storage.put_if_absent(f"{root}/snapshot-1", b"mine")
    assert not storage.put_if_absent(f"{root}/snapshot-1", b"theirs")
    assert storage.read(f"{root}/snapshot-1") == b"mine"
    assert [info.name for info in storage.list(root)] == ["snapshot-1"]


def test_one_of_many_writers_gets_the_name(place):
    storage, root = place
    start = threading.Barrier(8)

    def publish(number: int) -> bool:
        start.wait()
        return storage.put_if_absent(f"{root}/s", str(number).encode())

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(publish, range(8)))
    assert won.count(True) == 1
    assert storage.read(f"{root}/s") == str(won.index(True)).encode()


def test_listing(place):
    storage, root = place
    for name in ("a/1", "a/2", "a/b/3", "ab"):
        storage.write(f"{root}/{name}", b"x" * 3)
    children = {info.name: info for info in storage.list(root)}
    assert set(children) == {"a", "ab"}
    assert children["a"].is_dir
    assert not children["ab"].is_dir
    assert children["ab"].size == 3
    assert children["ab"].modified_millis > 1_600_000_000_000
    assert {info.path for info in storage.list(f"{root}/a")} == {f"{root}/a/1", f"{root}/a/2", f"{root}/a/b"}
    assert {info.path for info in storage.walk(root)} == {f"{root}/{n}" for n in ("a/1", "a/2", "a/b/3", "ab")}
    assert storage.info(f"{root}/a").is_dir
    assert storage.info(f"{root}/ab").size == 3


@pytest.mark.parametrize("name", ODD)
def test_names_stay_as_they_are(place, name):
    storage, root = place
    storage.write(f"{root}/{name}", b"1")
    assert storage.read(f"{root}/{name}") == b"1"
    assert [info.path for info in storage.walk(root)] == [f"{root}/{name}"]
    assert storage.list(root)[0].path == f"{root}/{name.split('/')[0]}"


def test_object_keys_are_the_names_that_hadoop_uses(s3):
    client, options = s3
    storage, root = storage_for("s3a://bucket/odd", options)
    for name in ODD:
        storage.write(f"{root}/{name}", b"1")
    found = [item["Key"] for item in client.list_objects_v2(Bucket="bucket", Prefix="odd/")["Contents"]]
    assert sorted(found) == sorted(f"odd/{name}" for name in ODD)


def test_streams(place):
    storage, root = place
    table = pa.table({"a": list(range(10_000)), "b": ["text"] * 10_000})
    with storage.open_output(f"{root}/x/data.parquet") as sink:
        pq.write_table(table, sink)
        assert sink.tell() > 0
    with storage.open_input(f"{root}/x/data.parquet") as source:
        assert pq.read_table(source).equals(table)
    with storage.open_input(f"{root}/x/data.parquet") as source:
        assert source.read(4) == b"PAR1"
        source.seek(-4, os.SEEK_END)
        assert source.read() == b"PAR1"
        assert source.seek(0) == 0
        assert source.read(0) == b""


def test_objects_of_writers_that_failed_do_not_appear(s3):
    for storage, root in (storage_for("s3://bucket/dropped", s3[1]), (ObjectStorage("memory://d"), "memory://d/x")):
        sink = storage.open_output(f"{root}/big")
        sink.write(b"x" * (9 << 20))
        del sink
        assert storage.info(f"{root}/big") is None


def test_deleting(place):
    storage, root = place
    for name in ("a/1", "a/b/2", "ab"):
        storage.write(f"{root}/{name}", b"")
    storage.delete(f"{root}/a/1")
    assert storage.info(f"{root}/a/1") is None
    storage.delete_tree(f"{root}/a")
    assert [info.path for info in storage.walk(root)] == [f"{root}/ab"]


@pytest.mark.parametrize("call", ["unlink", "rmdir"])
def test_a_folder_goes_whatever_others_do_in_it_meanwhile(tmp_path, monkeypatch, call):
    """Another process removes a file of it first, or puts one into a folder that was just emptied."""
    storage, real = LocalStorage(), getattr(os, call)
    for name in ("a/1", "a/2", "b/3", "4"):
        storage.write(f"{tmp_path}/t/{name}", b"")
    left = [2]

    def meddling(name, *, dir_fd=None):
        left[0] -= 1
        if left[0] == 0 and call == "rmdir":
            (tmp_path / "t" / "new").write_bytes(b"")
        if left[0] == 0:
            real(name, dir_fd=dir_fd) if call == "unlink" else None
        return real(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, call, meddling)
    storage.delete_tree(f"{tmp_path}/t")
    assert left[0] < 0
    assert not (tmp_path / "t").exists()


def test_renaming(place):
    storage, root = place
    storage.write(f"{root}/a/x/1", b"1")
    storage.write(f"{root}/taken", b"t")
    with pytest.raises(AlreadyExistsError):
        storage.rename(f"{root}/a", f"{root}/taken")
    storage.rename(f"{root}/a", f"{root}/b/c")
    assert storage.read(f"{root}/b/c/x/1") == b"1"
    assert not list(storage.walk(f"{root}/a"))
    storage.rename(f"{root}/taken", f"{root}/free")
    assert storage.read(f"{root}/free") == b"t"
    storage.make_dir(f"{root}/folder")


@pytest.mark.parametrize("last", range(4))
def test_a_rename_on_a_store_is_whole_or_leaves_nothing(last: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is one by its schema, which comes last: of a copy that dies nothing opens, of one that fails none stays.
    What a writer puts into the old place meanwhile comes along."""
    storage, root = storage_for(f"memory://{uuid.uuid4().hex}/wh")
    names = ["manifest/m", "schema/schema-0", "snapshot/snapshot-1", "snapshot/snapshot-2"]
    for name in names:
        storage.write(f"{root}/a/{name}", b"1")
    copy, copied = object_store._copy, []

    def failing(store, source, target):
        if len(copied) == last:
            raise obstore.exceptions.GenericError("503")
        copied.append(target)
        assert ("schema" in target) == (len(copied) == len(names))
        copy(store, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(object_store, "_copy", failing)
        with pytest.raises(StorageError, match="cannot rename"):
            storage.rename(f"{root}/a", f"{root}/b")
    assert [info.path for info in storage.walk(root)] == [f"{root}/a/{name}" for name in names]

    def beside(store, source, target):
        copy(store, source, target)
        if "schema" in target:
            storage.write(f"{root}/a/snapshot/snapshot-3", b"3")

    monkeypatch.setattr(object_store, "_copy", beside)
    storage.rename(f"{root}/a", f"{root}/b")
    assert [info.path for info in storage.walk(root)] == [
        f"{root}/b/{name}" for name in [*names, "snapshot/snapshot-3"]
    ]


def test_storages_travel(place):
    storage, root = place
    storage.write(f"{root}/a", b"1")
    assert pickle.loads(pickle.dumps(storage)) == storage
    assert pickle.loads(pickle.dumps(storage)).read(f"{root}/a") == b"1"


def test_stores_that_ignore_conditions_are_refused(monkeypatch):
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda store, key, data, **how: put(store, key, data))
    storage = ObjectStorage("memory://careless")
    with pytest.raises(StorageError, match=r"ignores conditional puts.*If-None-Match"):
        storage.put_if_absent("memory://careless/t/snapshot-1", b"1")
    assert list(storage.walk("memory://careless/t")) == []


def test_disks_without_links_are_refused(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageError, match="no hard links"):
        LocalStorage().put_if_absent(str(tmp_path / "s"), b"1")
    assert list(tmp_path.iterdir()) == []


def test_files_of_other_buckets_are_reached(s3):
    client, options = s3
    client.create_bucket(Bucket="other-bucket")
    client.put_object(Bucket="other-bucket", Key="t/f", Body=b"away")
    storage, _ = storage_for("s3://bucket/wh", options)
    assert storage.read("s3://other-bucket/t/f") == b"away"
    with pytest.raises(InvalidError, match="another storage"):
        storage.read("/tmp/f")


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/a/b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b/", "/a/b"),
        ("file://localhost/a", "/a"),
        ("wh", os.path.join(os.getcwd(), "wh")),
        ("~/wh", os.path.expanduser("~/wh")),
    ],
)
def test_local_paths(path, root):
    assert storage_for(path) == (LocalStorage(), root)


@pytest.mark.parametrize("path", ["file:wh", "file:", "file://wh", "file://wh/db.db", "file://../wh"])
def test_a_file_url_of_another_place_than_it_looks_like_is_refused(path):
    with pytest.raises(InvalidError, match="not the URL of a folder of this machine.*write file:/folder"):
        storage_for(path)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("/wh", "/wh/", True),
        ("/wh", "/wh2", False),
        ("/", "/wh", True),
        ("file:///wh//db.db", "/wh", True),
        ("/wh/../out", "/wh", False),
        ("s3://b/wh", "s3a://b/wh/db.db/t", True),
        ("s3://backup/wh/out", "s3://b/wh", False),
        ("s3://b", "s3n://b/wh", True),
        ("gs://b/wh", "s3://b/wh", False),
        ("/b/wh", "s3://b/wh", False),
        ("s3://b/x/../wh", "S3A://b//wh/t", True),
        ("FILE:/wh/./t", "/wh", True),
        ("file://localhost/wh/t", "/wh", True),
    ],
)
def test_folders_that_lie_in_each_other(one, other, expected):
    assert overlaps(one, other) == overlaps(other, one) == expected


def test_a_folder_behind_a_link_is_the_folder(tmp_path):
    (tmp_path / "wh").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "wh")
    assert overlaps(f"{tmp_path}/link/t", f"{tmp_path}/wh")


def test_schemes():
    storage, root = storage_for("s3a://b/wh/", {"s3.endpoint": "h", "table-default.bucket": "1"})
    assert (storage.url, root) == ("s3a://b", "s3a://b/wh")
    assert storage.options == (("s3.endpoint", "h"),)
    assert storage_for("abfss://c@acc.dfs.core.windows.net/wh")[0].url == "abfss://c@acc.dfs.core.windows.net"
    with pytest.raises(UnsupportedError, match="hdfs"):
        storage_for("hdfs://nn/wh")
    with pytest.raises(InvalidError, match="without bucket"):
        storage_for("s3://")
    env, root = open_env("memory://b/wh")
    assert (env.storage, root) == (ObjectStorage("memory://b"), "memory://b/wh")


@pytest.mark.parametrize(
    ("options", "config", "plain"),
    [
        ({}, {}, False),
        (
            {"s3.access-key": "a", "s3.secret-key": "b", "s3.session-token": "c", "s3.region": "eu"},
            {"access_key_id": "a", "secret_access_key": "b", "session_token": "c", "region": "eu"},
            False,
        ),
        (
            {"fs.s3a.access.key": "a", "fs.s3a.secret.key": "b", "fs.s3a.endpoint": "https://h/", "s3.region": "x"},
            {"access_key_id": "a", "secret_access_key": "b", "endpoint": "https://h", "region": "x"},
            False,
        ),
        (
            {"s3.endpoint": "h:9000", "s3.connection.ssl.enabled": "false", "s3.region": "x"},
            {"endpoint": "http://h:9000", "region": "x"},
            True,
        ),
        (
            {"s3.endpoint": "h", "s3.path.style.access": "false", "s3.region": "x"},
            {"endpoint": "https://b.h", "region": "x", "virtual_hosted_style_request": "true"},
            False,
        ),
    ],
)
def test_s3_options(options, config, plain):
    assert clients._s3_config("b", options) == (config, plain)


@pytest.mark.parametrize(
    ("config", "key", "meant"),
    [
        (lambda o: clients._s3_config("b", o), "s3.acces-key", "s3.access-key"),
        (lambda o: clients._s3_config("b", o), "fs.s3a.path.style.acces", "fs.s3a.path-style-access"),
        (clients._gcs_config, "gs.service-acount-key", "gs.service-account-key"),
        (lambda o: clients._azure_config("c", o), "azure.acount-name", "azure.account-name"),
    ],
)
def test_misspelt_options_are_told(config, key, meant):
    with pytest.warns(UserWarning, match=f"'{key}' is not known.*did you mean '{meant}'"):
        config({key: "x"})


def test_options_of_other_engines_pass_without_a_word():
    others = {"fs.s3a.threads.max": "9", "fs.s3a.impl": "x", "fs.s3a.connection.maximum": "9", "s3.access-key": "k"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clients._s3_config("b", others)


def test_other_stores_options():
    assert clients._gcs_config({"fs.gs.auth.service.account.json.keyfile": "/k"}) == {"service_account": "/k"}
    assert clients._azure_config(
        "c@acc.dfs.core.windows.net", {"fs.azure.account.key.acc.dfs.core.windows.net": "k"}
    ) == {"container_name": "c", "account_name": "acc", "account_key": "k"}
    assert clients._new_client("gs://b", {"gs.skip-signature": "true"}) is not None
    assert clients._new_client("az://c", {"azure.account-name": "a", "azure.skip-signature": "true"}) is not None


def test_secrets_are_not_shown():
    assert "hidden" not in repr(ObjectStorage("s3://b", (("s3.secret-key", "hidden"),)))


def test_the_clock():
    clock = SystemClock()
    assert clock.now_millis() > 1_600_000_000_000
    assert 0 <= clock.jitter() < 1
    assert len({clock.new_uuid() for _ in range(10)}) == 10
    clock.sleep(0)


def test_an_interrupt_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    for publish in (LocalStorage().write, LocalStorage().put_if_absent):
        with pytest.raises(KeyboardInterrupt):
            publish(str(tmp_path / "manifest"), b"x")
        assert list(tmp_path.iterdir()) == []


def test_a_length_beyond_the_file_reserves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abcdef")
    storage = LocalStorage()
    assert storage.read(str(path), 2, 1 << 60) == b"cdef"
    assert storage.read(str(path), 9, 5) == b""
    assert storage.read_ranges(str(path), [(4, 1 << 60), (9, 5), (0, 2)]) == [b"ef", b"", b"ab"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
@pytest.mark.parametrize("size", [10, 1 << 20], ids=["when it is closed", "when it is written"])
def test_a_full_disk_is_told_of_with_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    real = io.FileIO
    monkeypatch.setattr(io, "FileIO", lambda path, mode: real("/dev/full", "w"))
    sink = LocalStorage().open_output(f"{tmp_path}/x/data.parquet")
    with pytest.raises(StorageError, match="No space left") as told:
        sink.write(b"x" * size)
        sink.close()
    assert told.value.details["path"] == f"{tmp_path}/x/data.parquet"


def test_a_service_that_is_not_there_is_not_said_to_have_been_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(StorageError, match=r"no answer.*seconds=0\.1.*timed out"):
            request(Request("GET", url), seconds=0.1)
    with pytest.raises(StorageError, match=r"no answer from a service \[host=127\.0\.0\.1, reason=.*refused"):
        request(Request("GET", url))


def test_a_read_only_place_says_what_could_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The removal of a file that was never made failed as well, and was told of instead."""

    def refused(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(local, "open", refused, raising=False)
    monkeypatch.setattr(os, "unlink", refused)
    for call in (LocalStorage().write, LocalStorage().put_if_absent):
        with pytest.raises(StorageError, match=r"cannot write \[path=.*/t/name, reason=Read-only"):
            call(f"{tmp_path}/t/name", b"x")
