"""What is said to a reader or writer of an attached session, and which lake table it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bucketlake.errors import UnsupportedError
from bucketlake.spark.raised import told_as_ours
from bucketlake.spark.session import Saving
from bucketlake.sql.attached.layer import Layer, layers_of
from bucketlake.sql.tables.create import LAKE_PROVIDERS
from bucketlake.sql.tables.foreign import refuse_folder
from bucketlake.sql.tables.save import save
from bucketlake.sql.text.names import LakeName

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake


class Said:
    """What was said to a reader or writer so far. `about`: the session, or the frame that is written."""

    def __init__(self, about: Any, session: Any) -> None:
        self.about, self.session = about, session
        self.options: dict[str, Any] = {}
        self.calls: dict[str, Any] = {}

    def idle(self) -> list[Layer]:
        """The attachments that may be meant, the newest first."""
        return [layer for layer in layers_of(self.session) if not layer.is_busy]

    def find(self, name: str, views: bool = True) -> tuple[Layer, LakeName] | None:
        """The lake table that is there under a name, which temporary views hide unless `views` is false."""
        found = ((layer, layer.find(name, views)) for layer in self.idle())
        return next(((layer, table) for layer, table in found if table is not None), None)

    def to_make(self, name: str) -> tuple[Layer, LakeName] | None:
        """The lake table that is there under a name, or is to be made; temporary views hide neither."""
        known = self.find(name, views=False)
        if known is not None:
            known[0].refuse_format(known[1], self.calls.get("format"))
        made = ((layer, layer.to_make(name, self.calls.get("format"))) for layer in self.idle())
        return known or next(((layer, table) for layer, table in made if table is not None), None)

    def at(self, path: Any, format: str | None) -> tuple[Layer, LakeName] | None:
        """The lake table whose folder a path is, where the format is the lake's and all that was said is of a table."""
        if not is_lakes(format or self.calls.get("format")) or "schema" in self.calls:
            return None
        found = ((layer, layer.at(path)) for layer in self.idle())
        return next(((layer, table) for layer, table in found if table is not None), None)

    def refuse_folder(self, path: Any) -> None:
        """UnsupportedError for a folder of a lake table."""
        for layer in self.idle():
            with layer.inside() as lake:
                refuse_folder(lake, path)

    def refuse(self, *calls: str) -> None:
        """UnsupportedError for what lake tables do not honour."""
        for call in calls:
            if call in self.calls:
                raise UnsupportedError(f"{call} of a lake table", remedy="the table's own options say how it lies")


def is_lakes(format: Any) -> bool:
    """Whether a format is the lake's."""
    return isinstance(format, str) and format.lower() in LAKE_PROVIDERS


def listed(keys: Any) -> tuple[str, ...]:
    """Columns that are given as one name, or several."""
    return (keys,) if isinstance(keys, str) else tuple(keys)


def write_table(lake: Lake, frame: Any, how: Saving) -> None:
    """`lake.write_table` by options as Spark's writers have them."""
    with told_as_ours():
        save(lake, frame, replace(how, spelled=True))
