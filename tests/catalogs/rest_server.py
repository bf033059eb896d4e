"""A server of the REST catalog's document, over the file-system catalog of a folder: what the client is tested against.

Every request is checked against the document; what is wrong is answered with 400 and kept in `wrong`.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

from tests.catalogs import rest_document

from bucketlake.catalog import Catalog, open_catalog
from bucketlake.errors import AlreadyExistsError, BucketlakeError, NotFoundError
from bucketlake.format.metadata.snapshot import decode_snapshot
from bucketlake.schema.change import (
    AddColumn,
    DropColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
    UpdatePosition,
)
from bucketlake.schema.versions import create_schema
from bucketlake.types.model import format_field
from bucketlake.types.parse import parse_field, parse_type

TOKEN = "bearer-of-tests-4711"
AUDIT = {"owner": "me", "createdAt": 1, "createdBy": "me", "updatedAt": 1, "updatedBy": "me"}
PAGE = 2


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, resource: str | None = None, name: str = "", message: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = {"message": message or "no", "resourceType": resource, "resourceName": name, "code": status}


class Server:
    """State of one warehouse. `fault` is asked of each request before and after it is done: a status to answer instead,
    or "drop" to answer nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: Catalog = open_catalog(folder)
        self.ids: dict[str, str] = {}
        self.names: dict[str, str] = {}  # table -> folder's name
        self.external: set[str] = set()
        self.databases: dict[str, dict[str, str]] = {}
        self.database_ids: dict[str, str] = {}
        self.views: dict[str, dict[str, Any]] = {}
        self.newest: dict[str, dict[str, Any]] = {}
        self.statistics: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.wrong: list[str] = []
        self.tokens: list[tuple[dict[str, str], int]] = []
        self.config: dict[str, Any] = {"defaults": {"prefix": "pre fix"}, "overrides": {}}
        self.fault: Callable[[str, bool], Any] = lambda operation, done: None
        self.lock = threading.RLock()
        self.uri = ""
        self.strict = True  # what is not in the document is refused

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> tuple[int, Any]:
        """Status and body of the answer."""
        parts = urlsplit(target)
        path = parts.path.removeprefix("/v1")
        if path != "/config":
            path = path.removeprefix("/pre+fix")
        found = rest_document.operation(method, path)
        if found is None:
            self.wrong.append(f"{method} {path}")
            return 405, {"message": "no such operation", "code": 405}
        name, named = found
        self.asked.append(name)
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {"message": f"token={headers.get('Authorization')}", "code": 401}
        given = json.loads(body) if body else None
        wrong = rest_document.faults(given, rest_document.OPERATIONS[name][2])
        if wrong and self.strict:
            self.wrong += wrong
            return 400, {"message": "; ".join(wrong), "code": 400}
        early = self.fault(name, False)
        if early is not None:
            return early, {"message": "busy", "code": early} if isinstance(early, int) else None
        told = {key: unquote_plus(value) for key, value in named.items()}
        with self.lock:
            try:
                made = getattr(self, f"_{name}")(given, dict(parse_qsl(parts.query)), **told)
            except Refused as error:
                return error.status, error.body
            except AlreadyExistsError as error:
                return 409, {"message": str(error), "resourceType": "TABLE", "code": 409}
            except NotFoundError as error:
                return 404, {"message": str(error), "resourceType": "TABLE", "code": 404}
            except BucketlakeError as error:
                return 400, {"message": str(error), "code": 400}
        late = self.fault(name, True)
        if late is not None:
            return late, {"message": "failed", "code": late} if isinstance(late, int) else None
        return 200, made

    # ---- operations

    def _getConfig(self, given: Any, query: dict[str, str]) -> Any:
        if query.get("warehouse") not in ("ware house", "warehouse"):
            raise Refused(404, None, "", "no such warehouse")
        return self.config

    def _paged(self, part: str, items: list[str], query: dict[str, str]) -> Any:
        rest = sorted(item for item in items if item > query.get("pageToken", ""))
        page = rest[:PAGE]
        return {part: page, **({"nextPageToken": page[-1]} if len(rest) > PAGE else {})}

    def _listDatabases(self, given: Any, query: dict[str, str]) -> Any:
        return self._paged("databases", list(self.databases), query)

    def _createDatabase(self, given: Any, query: Any) -> Any:
        if given["name"] in self.databases:
            raise Refused(409, "DATABASE", given["name"])
        self.add_database(given["name"], given.get("options") or {})

    def add_database(self, name: str, options: dict[str, str]) -> None:
        """Make one, as a client does."""
        self.databases[name] = options
        self.database_ids[name] = str(uuid.uuid4())

    def _database(self, name: str) -> dict[str, str]:
        if name not in self.databases:
            raise Refused(404, "DATABASE", name)
        return self.databases[name]

    def _getDatabase(self, given: Any, query: Any, database: str) -> Any:
        options = self._database(database)
        place = f"{self.folder}/{database}.db"
        return {"id": self.database_ids[database], "name": database, "location": place, "options": options, **AUDIT}

    def _dropDatabase(self, given: Any, query: Any, database: str) -> Any:
        self._database(database)
        del self.databases[database]
        for table in [name for name in self.ids if name.startswith(f"{database}.")]:
            self._dropTable(None, None, database, table.partition(".")[2])

    def _alterDatabase(self, given: Any, query: Any, database: str) -> Any:
        options = self._database(database)
        for key in given["removals"]:
            options.pop(key, None)
        options.update(given["updates"])
        return {"removed": given["removals"], "updated": list(given["updates"]), "missing": []}

    def _listTables(self, given: Any, query: Any, database: str) -> Any:
        self._database(database)
        return self._paged("tables", [n.partition(".")[2] for n in self.ids if n.startswith(f"{database}.")], query)

    def _createTable(self, given: Any, query: Any, database: str) -> Any:
        self._database(database)
        name, schema = f"{database}.{given['identifier']['object']}", given["schema"]
        if name in self.ids or name in self.views:
            raise Refused(409, "TABLE", name)
        self.ids[name] = str(uuid.uuid4())
        self.names[name] = f"tables.`{self.ids[name]}`"
        self.files.create_database("tables", ignore_if_exists=True)
        made = create_schema(
            [parse_field(item) for item in schema["fields"]],
            schema["partitionKeys"],
            schema["primaryKeys"],
            schema["options"],
            schema.get("comment"),
        )
        self.files.create_table(self.names[name], made)

    def _own(self, database: str, table: str) -> tuple[str, Any]:
        """The name that the server knows, and the table or branch on files."""
        name, branch = table.split("$branch_")[0], table.partition("$branch_")[2]
        full = f"{database}.{name}"
        if full not in self.ids:
            raise Refused(404, "TABLE", full)
        return full, self.files.table(self.names[full], {"branch": branch} if branch else None)

    def _getTable(self, given: Any, query: Any, database: str, table: str) -> Any:
        full, own = self._own(database, table)
        schema = own.store.schema
        told = {"fields": [format_field(f) for f in schema.fields], "options": dict(schema.options)}
        keys = {"partitionKeys": list(schema.partition_keys), "primaryKeys": list(schema.primary_keys)}
        return {
            "id": self.ids[full],
            "name": table,
            "path": f"file:{own.path}",
            "isExternal": full in self.external,
            "schemaId": schema.id,
            "schema": {**told, **keys},
            **AUDIT,
        }

    def _alterTable(self, given: Any, query: Any, database: str, table: str) -> Any:
        self._own(database, table)[1].alter(*[_change(change) for change in given["changes"]])

    def _dropTable(self, given: Any, query: Any, database: str, table: str) -> Any:
        full, _ = self._own(database, table)
        self.files.drop_table(self.names.pop(full))
        del self.ids[full]
        for name in [name for name in self.newest if name.split("$")[0] == full]:
            del self.newest[name]

    def _renameTable(self, given: Any, query: Any) -> Any:
        old, new = (f"{given[end]['database']}.{given[end]['object']}" for end in ("source", "destination"))
        if old not in self.ids:
            raise Refused(404, "TABLE", old)
        if new in self.ids:
            raise Refused(409, "TABLE", new)
        for state in (self.ids, self.names, self.newest):
            if old in state:
                state[new] = state.pop(old)  # type: ignore[attr-defined]

    def _commitTable(self, given: Any, query: Any, database: str, table: str) -> Any:
        full, own = self._own(database, table)
        if given["tableId"] != self.ids[full]:
            raise Refused(404, "TABLE", full)
        name, snapshot = f"{database}.{table}", given["snapshot"]
        known = self.newest.get(name)
        if (known or {}).get("uuid") != given["baseSnapshotUuid"]:
            return {"success": False}
        path = own.store.paths.snapshot(snapshot["id"])
        if not self.files.env.storage.put_if_absent(path, json.dumps(snapshot).encode()):
            return {"success": False}
        decode_snapshot(json.dumps(snapshot).encode(), path)
        self.newest[name] = snapshot
        self.statistics += given["statistics"]
        return {"success": True}

    def _getTableSnapshot(self, given: Any, query: Any, database: str, table: str) -> Any:
        full, _ = self._own(database, table)
        if full in self.external:
            raise Refused(501, "TABLE", full)
        if f"{database}.{table}" not in self.newest:
            raise Refused(404, "SNAPSHOT", full)
        sums = dict.fromkeys(("recordCount", "fileSizeInBytes", "fileCount", "lastFileCreationTime"), 0)
        return {"snapshot": {"snapshot": self.newest[f"{database}.{table}"], **sums}}

    def _synced(self, database: str, table: str) -> None:
        """What the files say after a branch or rollback, as the server's own knowledge."""
        own = self._own(database, table)[1]
        found = own.latest_snapshot()
        name = f"{database}.{table}"
        if found is None:
            self.newest.pop(name, None)
        else:
            self.newest[name] = json.loads(self.files.env.storage.read(own.store.paths.snapshot(found.id)))

    def _rollbackTable(self, given: Any, query: Any, database: str, table: str) -> Any:
        instant, own = given["instant"], self._own(database, table)[1]
        own.rollback_to(instant["snapshotId"] if instant["type"] == "snapshot" else instant["tagName"])
        self._synced(database, table)

    def _createBranch(self, given: Any, query: Any, database: str, table: str) -> Any:
        try:
            self._own(database, table)[1].create_branch(given["branch"], given.get("fromTag"))
        except NotFoundError:
            raise Refused(404, "TAG", given["fromTag"]) from None
        except AlreadyExistsError:
            raise Refused(409, "BRANCH", given["branch"]) from None
        self._synced(database, f"{table}$branch_{given['branch']}")

    def _dropBranch(self, given: Any, query: Any, database: str, table: str, branch: str) -> Any:
        self._own(database, table)[1].delete_branch(branch)

    def _renameBranch(self, given: Any, query: Any, database: str, table: str, branch: str) -> Any:
        self._own(database, table)[1].rename_branch(branch, given["toBranch"])
        self._synced(database, f"{table}$branch_{given['toBranch']}")

    def _forwardBranch(self, given: Any, query: Any, database: str, table: str, branch: str) -> Any:
        self._own(database, table)[1].fast_forward(branch)
        self._synced(database, table)

    def _getTableToken(self, given: Any, query: Any, database: str, table: str) -> Any:
        self._own(database, table)
        token, expires = self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]
        return {"token": token, "expiresAt": expires}

    def _listViews(self, given: Any, query: Any, database: str) -> Any:
        self._database(database)
        return self._paged("views", [n.partition(".")[2] for n in self.views if n.startswith(f"{database}.")], query)

    def _createView(self, given: Any, query: Any, database: str) -> Any:
        name = f"{database}.{given['identifier']['object']}"
        if name in self.views or name in self.ids:
            raise Refused(409, "VIEW", name)
        self.views[name] = given["schema"]

    def _getView(self, given: Any, query: Any, database: str, view: str) -> Any:
        if f"{database}.{view}" not in self.views:
            raise Refused(404, "VIEW", view)
        return {"id": view, "name": view, "schema": self.views[f"{database}.{view}"]}

    def _alterView(self, given: Any, query: Any, database: str, view: str) -> Any:
        texts = self._getView(None, None, database, view)["schema"]["dialects"]
        for one in given["changes"]:
            there = one["dialect"] in texts
            if there is (one["action"] == "addDialect"):
                raise Refused(409 if there else 404, "DIALECT", one["dialect"])
            if one["action"] == "dropDialect":
                del texts[one["dialect"]]
            else:
                texts[one["dialect"]] = one["query"]

    def _dropView(self, given: Any, query: Any, database: str, view: str) -> Any:
        self._getView(None, None, database, view)
        del self.views[f"{database}.{view}"]


def _change(told: dict[str, Any]) -> SchemaChange:
    path, move = tuple(told.get("fieldNames") or ()), told.get("move") or {}
    first = move.get("type") == "FIRST"
    after = move.get("referenceFieldName") if move.get("type") == "AFTER" else None
    before = move.get("referenceFieldName") if move.get("type") == "BEFORE" else None
    made: dict[str, Callable[[], SchemaChange]] = {
        "setOption": lambda: SetOption(told["key"], told["value"]),
        "removeOption": lambda: RemoveOption(told["key"]),
        "updateComment": lambda: UpdateComment(None, told.get("comment")),
        "addColumn": lambda: AddColumn(path, parse_type(told["dataType"]), told.get("comment"), first, after),
        "renameColumn": lambda: RenameColumn(path, told["newName"]),
        "dropColumn": lambda: DropColumn(path),
        "updateColumnComment": lambda: UpdateComment(path, told.get("newComment")),
        "updateColumnDefaultValue": lambda: UpdateColumnDefault(path, told.get("newDefaultValue")),
        "updateColumnType": lambda: UpdateColumnType(path, parse_type(told["newDataType"]), told["keepNullability"]),
        "updateColumnPosition": lambda: UpdatePosition(move["fieldName"], first, after, before),
        "updateColumnNullability": lambda: UpdateColumnNullability(path, told["newNullability"]),
    }
    return made[told["action"]]()


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A running server; what was wrong with requests fails the test at the end."""
    server = Server(folder)

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, told = server.answer(self.command, self.path, self.headers, body)
            if status == "drop":
                self.close_connection = True
                return
            data = b"" if told is None else told if isinstance(told, bytes) else json.dumps(told).encode()
            self.send_response(status)
            if status in (301, 302, 307):
                self.send_header("Location", f"{server.uri}/elsewhere")
            if status == 429:
                self.send_header("Retry-After", "3")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _any

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server.uri = f"http://127.0.0.1:{http.server_port}"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
    assert server.wrong == []


def later(seconds: float) -> int:
    """Epoch milliseconds of so many seconds from now."""
    return int((time.time() + seconds) * 1000)
