"""A table's newest schema, as it lies in a folder."""

from __future__ import annotations

from contextlib import suppress

from bucketlake.env.env import Env
from bucketlake.errors import BucketlakeError, CorruptError, InvalidError, NotFoundError
from bucketlake.file_names import check_path_options, number_of
from bucketlake.ops.table.remedies import branch_remedy
from bucketlake.paths import TablePaths
from bucketlake.schema.schema import TableSchema

_DATABASE = ".db"  # how folders of databases end


def newest_schema(env: Env, paths: TablePaths) -> TableSchema:
    """The newest schema as it is stored, NotFoundError if the folder (or branch) holds no table."""
    names = [info.name for info in env.storage.list(paths.schema_dir)]
    numbers = [number_of(name.removeprefix("schema-")) for name in names if name.startswith("schema-")]
    ids = [number for number in numbers if number is not None]
    if not ids:
        branch = paths.options.get("branch")
        if branch is not None:
            known = sorted(info.name.removeprefix("branch-") for info in env.storage.list(paths.branch_dir))
            if branch in known:
                remedy = "delete it once more, unless it is being made right now"
                raise NotFoundError("the branch has no schema", path=paths.root, branch=branch, remedy=remedy)
            raise NotFoundError("no such branch", path=paths.root, branch=branch, remedy=branch_remedy(branch, known))
        raise NotFoundError("no table in this folder", path=paths.root, remedy=_remedy(env, paths.root))
    newest = paths.schema(max(ids))
    schema = TableSchema.decode(env.storage.read(newest), newest, max(ids))
    try:
        check_path_options(schema.options)
    except InvalidError as error:
        details = {"value" if key == "path" else key: value for key, value in error.details.items()}
        raise CorruptError(error.what, remedy=error.remedy, path=newest, **details) from error
    return schema


def _remedy(env: Env, root: str) -> str:
    """What to do where a folder is no table: it may hold tables."""
    names: list[str] = []
    with suppress(BucketlakeError):
        names = [info.name.rstrip("/") for info in env.storage.list(root) if info.is_dir]
    if any(name.endswith(_DATABASE) for name in names):
        return "this is a warehouse: name the folder of one of its tables, <warehouse>/<database>.db/<table>"
    if names and root.rstrip("/").endswith(_DATABASE):
        return f"this is a database: name the folder of one of its tables, {', '.join(sorted(names)[:3])}"
    return "check the path, or create the table first"
