"""Object stores as `Storage`: S3, GCS, Azure, and `memory://` for tests, through obstore.

Publishing is a conditional put. A store that ignores the condition would let two writers commit the same snapshot, so
before the first publish of a process to a bucket a probe object is created twice: the second must fail. The client
itself repeats a put whose answer was lost, and is then told that the name is taken: a mark in the object's metadata,
new for each call, tells its own object from another's.

Stores have no folders. `make_dir` leaves an empty object `.folder`, which listings here do not show. The objects
`folder/` that other programs leave for the same purpose are taken for folders; obstore can neither make nor remove
them.

`storage_for` and `open_env` choose by scheme; options take Paimon's spellings (`s3.access-key`, `fs.s3a.…`, `fs.gs.…`).

Spec: docs/spec/paths.md#storage
"""

from __future__ import annotations

import io
import os
import posixpath
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from typing import Any, BinaryIO, cast

from bucketlake.env.clients import MOST_CLIENTS, client, keys_wanted, kind_of
from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.env.object_parts import end_of, part_of
from bucketlake.env.remote_input import RemoteInput
from bucketlake.env.sizes import whole
from bucketlake.env.storage import FileInfo, Storage, deleted_one_by_one, outside
from bucketlake.errors import (
    AlreadyExistsError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    already_done,
)
from bucketlake.file_names import fault_of_path, lies_in, lies_in_any, listed_roots, local_path
from bucketlake.lazy import obstore, obstore_errors, obstore_store, uuid
from bucketlake.options.catalog import ALLOWED_EXTERNAL
from bucketlake.redaction import holds_password
from bucketlake.types.wall_clock import epoch_of
from bucketlake.values import dataclass

NEAR_BYTES = 1 << 18  # ranges that lie so near are read together
PART_BYTES = 8 << 20
DELETE_BATCH = 1000

STORAGE_PREFIXES = ("s3.", "s3a.", "fs.", "gs.", "azure.", "memory.")

_ODD = ("//", "/./", "/../")  # the store, or a proxy before it, may take these for another key

_MARK = "bucketlakeput"  # a name that every store's metadata takes
_PLACEHOLDER = ".folder"
_SCHEMAS = "/schema/"  # below a table's folder, or a branch's
_LEFT = "remove what is left; do not rename again"
_KEYLESS = ("169.254.169.254", "169.254.170.2", "metadata.google.internal")  # asked where no key was given
_CUT = "response body"  # an answer that ended too soon
_BUSY = "ConditionalRequestConflict"
_PAUSES = (0.02, 0.1, 0.5, 2.0)  # seconds, between two puts
_CODE = re.compile(r"<Code>(\w+)</Code>")

_probed: dict[Any, None] = {}  # as clients: their options may hold tokens that change
_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """One bucket or container: `url` is `scheme://bucket`, paths are `url/key`. Picklable; clients are made when first
    used, one a process. `memory://name` is of one process only.

    `roots`: the only folders that calls may reach, as whole paths; empty: any of this kind of store. A path never leads
    to another kind of store: CorruptError names it."""

    url: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    roots: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def settings(self) -> Mapping[str, str]:
        """What was given to reach the store: of another storage of its kind, too."""
        return dict(self.options)

    def within(self, roots: Sequence[str]) -> ObjectStorage:
        """The same store, of these folders only."""
        return replace(self, roots=tuple(roots))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        store, key = self._at(path)
        with _translated("cannot read", path):
            if not offset and length is None:
                found = _once_more(lambda: obstore.get(store, key))
                whole(path, found.meta["size"])
                return bytes(found.bytes())
            return part_of(store, key, offset, length)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See Storage."""
        store, key = self._at(path)
        with _translated("cannot read", path):
            size = obstore.head(store, key)["size"]
            ends = [(min(offset, size), min(offset + length, size)) for offset, length in ranges]
            wanted = [(start, end) for start, end in ends if start < end]
            if not wanted:
                return [b""] * len(ranges)
            starts, stops = map(list, zip(*wanted, strict=True))
            parts = iter(obstore.get_ranges(store, key, starts=starts, ends=stops, coalesce=NEAR_BYTES))
            return [bytes(next(parts)) if start < end else b"" for start, end in ends]

    def open_input(self, path: str) -> BinaryIO:
        """See Storage."""
        store, key = self._at(path)
        with _translated("cannot open", path):
            size, end = end_of(store, key)
        return cast("BinaryIO", _Input(store, key, path, size, end))

    def open_output(self, path: str) -> BinaryIO:
        """See Storage."""
        store, key = self._at(path)
        with _translated("cannot create", path):
            return cast("BinaryIO", _Output(store, key, path))

    def write(self, path: str, data: bytes) -> None:
        """See Storage."""
        store, key = self._at(path)
        with _translated("cannot write", path):
            obstore.put(store, key, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See Storage. StorageError if the store ignores conditional puts."""
        store, key = self._at(path)
        self._probe(store, path)
        with _translated("cannot publish", path):
            return _created(store, key, data)

    def _probe(self, store: Any, path: str) -> None:
        token = (self._bucket(path), self.options)
        with _lock:
            if token in _probed:
                return
            folder = path.rsplit("/", 1)[0]
            _, key = self._at(f"{folder}/.probe-{uuid.uuid4().hex}")
            with _translated("cannot publish", path):
                try:
                    # Twice: who drops the table meanwhile takes the probe away.
                    honoured = _created(store, key, b"1") and not all(_created(store, key, b"2") for _ in "ab")
                except obstore_errors.NotSupportedError:
                    honoured = False
                finally:
                    _delete(store, [key])
            if not honoured:
                raise StorageError(
                    "object store ignores conditional puts, so concurrent commits could overwrite each other",
                    url=self.url,
                    missing="PUT with If-None-Match: *",
                    remedy="use a store or version that honours it (AWS S3, GCS, Azure, MinIO, R2, Ceph)",
                )
            while len(_probed) >= MOST_CLIENTS:
                del _probed[next(iter(_probed))]
            _probed[token] = None

    def info(self, path: str) -> FileInfo | None:
        """See Storage."""
        store, key = self._at(path)
        with _translated("cannot stat", path):
            if key:
                try:
                    return _info(path, obstore.head(store, key))
                except (obstore_errors.NotFoundError, FileNotFoundError):
                    pass
            there = any(True for _ in _below(store, key, 1))
        return FileInfo(path, is_dir=True) if there else None

    def list(self, path: str) -> list[FileInfo]:
        """See Storage."""
        store, key = self._at(path)
        with _translated("cannot list", path):
            found = _once_more(lambda: obstore.list_with_delimiter(store, _folder(key)))
        bucket = self._bucket(path)
        folders = [FileInfo(f"{bucket}/{name}", is_dir=True) for name in found["common_prefixes"]]
        return folders + [_info(f"{bucket}/{i['path']}", i) for i in found["objects"] if _is_file(i["path"], key)]

    def walk(self, path: str) -> Iterator[FileInfo]:
        """See Storage."""
        store, key = self._at(path)
        bucket = self._bucket(path)
        with _translated("cannot list", path):
            for item in _below(store, key):
                if _is_file(item["path"], key):
                    yield _info(f"{bucket}/{item['path']}", item)

    def make_dir(self, path: str) -> None:
        """See Storage."""
        self.write(f"{path}/{_PLACEHOLDER}", b"")

    def delete(self, path: str) -> None:
        """See Storage."""
        store, key = self._at(path)
        with _translated("cannot delete", path):
            _delete(store, [key])

    def delete_all(self, paths: Sequence[str]) -> int:
        """See Storage."""
        buckets: dict[str, list[str]] = {}
        for path in paths:
            buckets.setdefault(self._bucket(path), []).append(path)
        return sum(self._delete_batch(found) for found in buckets.values())

    def _delete_batch(self, paths: Sequence[str]) -> int:
        try:
            with _translated("cannot delete", paths[0]):
                _delete(self._at(paths[0])[0], [self._at(path)[1] for path in paths])
        except StorageError:
            return deleted_one_by_one(self.delete, paths)
        return len(paths)

    def delete_tree(self, path: str) -> None:
        """See Storage."""
        store, key = self._at(path)
        with _translated("cannot delete", path):
            _delete(store, _keys(store, key))

    def delete_empty(self, path: str) -> bool:
        """See Storage: folders go with their last object."""
        return False

    def rename(self, source: str, target: str) -> None:
        """See Storage. Copies object by object, then deletes: readers may see both meanwhile. See `_move`."""
        if self.info(target) is not None:
            raise AlreadyExistsError("target of a rename exists", path=target)
        store, old = self._at(source)
        if self._bucket(source) != self._bucket(target):
            raise UnsupportedError("rename between buckets", source=source, target=target)
        new = self._at(target)[1]
        found = self.info(source)
        if found is None:
            raise NotFoundError("no such file", path=source)
        with _translated("cannot rename", source):
            if not found.is_dir:
                _copy(store, old, new)
                _delete(store, [old])
                return
            known = _copied(store, old, new)
        done = already_done(f"{target} is there whole, and of the name before something is left", _LEFT, path=source)
        with done, _translated("cannot remove", source):
            _left_behind(store, old, new, known)

    def link(self, source: str, target: str) -> None:
        """See Storage: a copy made by the store itself."""
        if self._bucket(source) != self._bucket(target):
            raise UnsupportedError("a file's second name in another bucket", source=source, target=target)
        if self.info(target) is not None:
            raise AlreadyExistsError("target of a link exists", path=target)
        if self.info(source) is None:
            raise NotFoundError("no such file", path=source)
        store, old = self._at(source)
        with _translated("cannot copy", source):
            _copy(store, old, self._at(target)[1])

    def _bucket(self, path: str) -> str:
        """The URL of the bucket that a path lies in: files on external paths may lie in another one of this kind."""
        if path == self.url or path.startswith(self.url + "/"):
            return self.url
        scheme, separator, rest = path.partition("://")
        bucket, kind = rest.split("/", 1)[0], kind_of(scheme)
        if not separator or not bucket or kind is None or kind != kind_of(self.url.partition(":")[0]):
            raise InvalidError("path of another storage", path=path, storage=self.url)
        return f"{scheme}://{bucket}"

    def _at(self, path: str) -> tuple[Any, str]:
        if self.roots and path not in self.roots and not lies_in_any(path, self.roots):
            raise outside(path, self.roots)
        bucket = self._bucket(path)
        key = path[len(bucket) :].strip("/")
        if any(odd in f"/{key}/" for odd in _ODD) and key:
            raise outside(path, self.roots or (self.url,))
        return client(bucket, self.options), key


class _Input(RemoteInput):
    """Reads ranges of one object. `end`: its last bytes, which are known."""

    def __init__(self, store: Any, key: str, path: str, size: int, end: bytes) -> None:
        super().__init__(size, end)
        self._store, self._key, self._path = store, key, path

    def _fetch(self, place: int, count: int) -> bytes:
        with _translated("cannot read", self._path):
            return bytes(obstore.get_range(self._store, self._key, start=place, length=count))


class _Output(io.RawIOBase):
    """Streams one object; it appears when closed, and never if the writer is dropped instead. The client repeats the
    request that ends an upload in parts, too, and is then told that there is no such upload: its mark tells."""

    def __init__(self, store: Any, key: str, path: str) -> None:
        self._store, self._key, self._path = store, key, path
        self._mark = _new_mark(store)
        self._writer = obstore.open_writer(store, key, buffer_size=PART_BYTES, attributes=self._mark)
        self._place = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        with _translated("cannot write", self._path):
            self._writer.write(bytes(view))
        self._place += len(view)
        return len(view)

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        with _translated("cannot write", self._path):
            try:
                self._writer.close()
            except (obstore_errors.NotFoundError, FileNotFoundError):
                if self._mark is None or _mark_of(self._store, self._key) != self._mark[_MARK]:
                    raise

    def __del__(self) -> None:
        """A writer that failed leaves nothing behind: do not close, which would complete the upload."""


# ---------------------------------------------------------------------------------------------- choosing


def storage_for(path: str, options: Mapping[str, str] | None = None) -> tuple[Storage, str]:
    """The storage that serves a path or URI, and the path as that storage takes it, without trailing slash.

    Plain paths (`~` and relative ones too) and `file:` URIs are local. Raises: UnsupportedError for other schemes,
    InvalidError for URLs that name no folder.
    """
    scheme, separator, rest = path.partition(":")
    if not separator or "/" in scheme or len(scheme) == 1:
        return LocalStorage(), os.path.abspath(os.path.expanduser(path))
    if scheme == "file":
        host, slash, rest = rest[2:].partition("/") if rest.startswith("//") else ("", rest[:1], rest[1:])
        if host not in ("", "localhost") or slash != "/":
            remedy = "write file:/folder, or a relative path without file:"
            raise InvalidError("not the URL of a folder of this machine", path=path, remedy=remedy)
        return LocalStorage(), os.path.abspath("/" + rest.lstrip("/"))
    if kind_of(scheme) is None:
        raise UnsupportedError(
            "no storage of this scheme is known",
            path=path,
            remedy="use a local path, s3://, gs://, az://, abfss:// or memory://",
        )
    bucket = rest.lstrip("/").split("/", 1)[0]
    if not bucket:
        raise InvalidError("path without bucket", path=path, remedy=f"write {scheme}://bucket/folder")
    if holds_password(path):
        raise InvalidError(
            "credentials in the URL of a storage", path=path, remedy="give them as options (s3.access-key, …)"
        )
    if not rest.startswith("//") or any(odd in f"/{rest.strip('/')}/" for odd in _ODD):
        raise InvalidError("not the URL of a folder", path=path, remedy=f"write {scheme}://bucket/folder")
    given = tuple(sorted((k, str(v)) for k, v in (options or {}).items() if k.startswith(STORAGE_PREFIXES)))
    return ObjectStorage(f"{scheme}://{bucket}", given), path.rstrip("/")


def overlaps(one: str, other: str) -> bool:
    """Whether one of two folders is, or lies in, the other, however they are spelled (`places`)."""
    pairs = [(left, right) for left in places(one) for right in places(other)]
    return any(left == right or lies_in(left, right) or lies_in(right, left) for left, right in pairs)


def places(path: str) -> tuple[str, ...]:
    """What a folder's path or URI means, as texts that are alike for alike folders: whatever the scheme of a kind of
    store, slashes, `.` and `..`, as Hadoop takes them; on this machine with links as they are, and followed."""
    scheme, separator, rest = path.partition("://")
    kind = kind_of(scheme.lower()) if separator else None
    if kind is not None or (separator and scheme.lower() != "file"):
        return (f"{kind or scheme}://{posixpath.normpath('/' + rest)[1:]}",)
    plain = local_path("file:" + path[5:] if path[:5].lower() == "file:" else path)
    text = os.path.abspath(re.sub("//+", "/", plain))
    return tuple(dict.fromkeys([text, os.path.realpath(text)]))


def open_env(path: str, options: Mapping[str, str] | None = None) -> tuple[Env, str]:
    """An Env whose storage serves a path or URI, and the path as that storage takes it.

    Option `allowed-external-paths`: folders, separated by commas, that tables may keep files in beside their own.
    """
    storage, root = storage_for(path, options)
    return Env(storage, external=_allowed((options or {}).get(ALLOWED_EXTERNAL))), root


def open_beside(env: Env, path: str) -> tuple[Env, str]:
    """As `open_env`, by the settings of the storage that an Env has: of what belongs to a table and lies elsewhere."""
    return open_env(path, getattr(env.storage, "settings", {}))


def _allowed(text: object) -> tuple[str, ...]:
    roots = listed_roots(None if text is None else str(text))
    for root in roots:
        fault = fault_of_path(root) if root != "/" else None
        if fault is not None or not (root.startswith("/") or "://" in root):
            raise InvalidError(
                "not a folder", option=ALLOWED_EXTERNAL, path=root, reason=fault, remedy="write whole paths or URIs"
            )
    return roots


# ---------------------------------------------------------------------------------------------- calls


@contextmanager
def _translated(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except (obstore_errors.NotFoundError, FileNotFoundError) as error:
        raise NotFoundError("no such file", path=path) from error
    except (obstore_errors.BaseError, OSError, ValueError) as error:
        code = _CODE.search(str(error))
        reason = str(error).split("\n")[0] + (f" {code[1]}" if code else "")
        keyless = any(sign in reason for sign in _KEYLESS)
        remedy = f"no access key was given: {keys_wanted(path)}" if keyless else None
        raise StorageError(what, path=path, reason=reason, remedy=remedy) from error


def _created(store: Any, key: str, data: bytes) -> bool:
    """Whether this call created the object.

    A store that is busy with the name may say so (S3: 409 ConditionalRequestConflict) where nobody has it in the end.
    """
    mark = _new_mark(store)
    for pause in (*_PAUSES, None):
        try:
            obstore.put(store, key, data, mode="create", use_multipart=False, attributes=mark)
        except (obstore_errors.AlreadyExistsError, obstore_errors.PreconditionError, FileExistsError) as error:
            found = None if mark is None else _mark_of(store, key)
            if found is None and _BUSY in str(error) and not _is_there(store, key):
                if pause is None:
                    raise
                time.sleep(pause)
                continue
            return mark is not None and found == mark[_MARK]
        return True
    raise AssertionError("not reached")


def _new_mark(store: Any) -> dict[str, str] | None:
    return None if isinstance(store, obstore_store.LocalStore) else {_MARK: uuid.uuid4().hex}


def _is_there(store: Any, key: str) -> bool:
    try:
        obstore.head(store, key)
    except (obstore_errors.NotFoundError, FileNotFoundError):
        return False
    return True


def _mark_of(store: Any, key: str) -> Any:
    try:
        return obstore.get(store, key).attributes.get(_MARK)
    except (obstore_errors.NotFoundError, FileNotFoundError):
        return None  # removed meanwhile: another's, or a name that is no more


def _copy(store: Any, source: str, target: str) -> None:
    try:
        obstore.copy(store, source, target, overwrite=True)
    except (obstore_errors.NotFoundError, FileNotFoundError):
        if any(True for _ in _below(store, source, 1)):
            return  # another program's object for a folder
        raise


def _copied(store: Any, old: str, new: str) -> dict[str, Any]:
    """Copy a folder; what was copied, with its version. Where it fails nothing stays of the copy.

    What is a table or a branch by its schemas is none before these are there: they come last, and a death on the way
    leaves nothing that opens with a part of its snapshots.
    """
    known = _versions(store, old)
    begun: list[str] = []
    try:
        for key in sorted(known, key=lambda key: key.startswith(old + _SCHEMAS)):
            begun.append(new + key[len(old) :])
            _copy(store, key, begun[-1])
    except BaseException:
        with suppress(Exception):
            _delete(store, begun[::-1])
        raise
    return known


def _left_behind(store: Any, old: str, new: str, known: Mapping[str, Any]) -> None:
    """Remove a folder that was copied, its schemas first: a writer that publishes into it from then on finds no table,
    and says so. What came before that, and after the copy, is copied, too."""
    _delete(store, [key for key in known if key.startswith(old + _SCHEMAS)])
    now = _versions(store, old)
    for key in [key for key, version in now.items() if known.get(key) != version]:
        _copy(store, key, new + key[len(old) :])
    _delete(store, list(now))


def _versions(store: Any, key: str) -> dict[str, Any]:
    """All objects in a folder, each with what another one of its name would differ in."""
    found = _below(store, key)
    return {one["path"]: (one["e_tag"], one["last_modified"], one["size"]) for one in found if one["path"] != key}


def _delete(store: Any, keys: list[str]) -> None:
    """Remove objects, many a request; absent ones are fine."""
    for start in range(0, len(keys), DELETE_BATCH):
        try:
            obstore.delete(store, keys[start : start + DELETE_BATCH])
        except (obstore_errors.NotFoundError, FileNotFoundError):
            for key in keys[start : start + DELETE_BATCH]:
                _delete_one(store, key)


def _delete_one(store: Any, key: str) -> None:
    try:
        obstore.delete(store, key)
    except (obstore_errors.NotFoundError, FileNotFoundError):
        return


def _keys(store: Any, key: str) -> list[str]:
    """All objects in a folder."""
    return [item["path"] for item in _below(store, key) if item["path"] != key]


def _below(store: Any, key: str, page: int = 1000) -> Iterator[Any]:
    """All objects in a folder. The client repeats a request, but not one whose answer ends too soon."""
    last, again = None, False
    while True:
        try:
            for chunk in obstore.list(store, _folder(key), offset=last, chunk_size=page):
                again = False
                yield from chunk
                last = chunk[-1]["path"] if chunk else last
            return
        except obstore_errors.GenericError as error:
            if again or _CUT not in str(error):
                raise
            again = True


def _once_more(ask: Callable[[], Any]) -> Any:
    """An answer, asked for again where it ended too soon: the client repeats what was cut of an object, but neither a
    list nor the answer that there is none."""
    try:
        return ask()
    except obstore_errors.GenericError as error:
        if _CUT not in str(error):
            raise
        return ask()


def _is_file(key: str, folder: str) -> bool:
    """Whether an object found in a folder is a file, and does not only stand for a folder."""
    return key != folder and key.rsplit("/", 1)[-1] != _PLACEHOLDER


def _folder(key: str) -> str | None:
    return key + "/" if key else None


def _info(path: str, item: Any) -> FileInfo:
    return FileInfo(path, item["size"], epoch_of(item["last_modified"]))
