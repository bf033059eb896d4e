"""A table's newest schema, as it lies in a folder."""

from __future__ import annotations

from bucketlake.env.env import Env
from bucketlake.errors import CorruptError, InvalidError, NotFoundError
from bucketlake.file_names import check_path_options, number_of
from bucketlake.paths import TablePaths
from bucketlake.schema.schema import TableSchema


def newest_schema(env: Env, paths: TablePaths) -> TableSchema:
    """The newest schema as it is stored, NotFoundError if the folder (or branch) holds no table."""
    names = [info.name for info in env.storage.list(paths.schema_dir)]
    numbers = [number_of(name.removeprefix("schema-")) for name in names if name.startswith("schema-")]
    ids = [number for number in numbers if number is not None]
    if not ids:
        branch = {"branch": paths.options["branch"]} if "branch" in paths.options else {}
        remedy = "check the path, or create the table first"
        what = "no such branch" if branch else "no table in this folder"
        raise NotFoundError(what, path=paths.root, remedy=remedy, **branch)
    newest = paths.schema(max(ids))
    schema = TableSchema.decode(env.storage.read(newest), newest, max(ids))
    try:
        check_path_options(schema.options)
    except InvalidError as error:
        details = {"value" if key == "path" else key: value for key, value in error.details.items()}
        raise CorruptError(error.what, remedy=error.remedy, path=newest, **details) from error
    return schema
