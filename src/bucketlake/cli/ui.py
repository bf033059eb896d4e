"""`ui`: the page over a warehouse, served from this machine until Ctrl-C."""

from __future__ import annotations

import sys
import webbrowser
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from bucketlake.cli.answer import UsageError, document
from bucketlake.cli.command import OTHER, add
from bucketlake.cli.grammar import Group, Option
from bucketlake.cli.warehouse import InWarehouse
from bucketlake.errors import UnsupportedError
from bucketlake.lazy import lazy

if TYPE_CHECKING:
    from bucketlake.ui import server
else:  # no other command has a use for it
    server = lazy("bucketlake.ui.server")

NEEDED = ("starlette", "uvicorn")
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Ui(InWarehouse):
    """What `ui` takes."""

    host: Annotated[str, Option("--host", metavar="ADDRESS", help="Where to listen; others need a tunnel.")] = (
        "127.0.0.1"
    )
    port: Annotated[
        int | None,
        Option("--port", metavar="N", min=0, max=65535, help="8765 or the next free one; 0: any."),
    ] = None
    name: Annotated[
        list[str] | None,
        Option("--name", metavar="HOST[:PORT]", help="Another name by which browsers reach it."),
    ] = None
    allow_maintenance: Annotated[
        bool, Option("--allow-maintenance", help="Let the page compact, expire and tag; it only looks otherwise.")
    ] = False
    open: Annotated[bool, Option("--open", help="Open the page in the browser.")] = False

    def kept(self) -> str:
        """The page has changed nothing but what was asked for in it."""
        return "the page has ended"


def ui(given: Ui) -> None:
    """Show a warehouse in the browser, as a page.

    History, buckets, levels, rows, schemas, advice. Prints the address, whose token opens the page, and serves it
    until Ctrl-C. No Spark, no Java.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UnsupportedError(
            "the page needs packages that are not installed", missing=missing, remedy="pip install 'bucketlake[ui]'"
        )
    if given.host in server.EVERYWHERE and not given.name:
        raise UsageError(
            "listening everywhere needs the name by which the page is reached",
            host=given.host,
            remedy="add --name HOST:PORT, or listen on one address",
        )
    address = server.Address(given.host, given.port, tuple(given.name or ()))
    running = server.Running(given.catalog, address, server.Limits(allow_maintenance=given.allow_maintenance))
    if given.host not in LOOPBACK:
        given.console.warn("what is asked and answered crosses the network unencrypted: better use a tunnel")
    if given.json:
        given.console.write([document({"url": running.url, "maintenance": given.allow_maintenance})])
    else:
        given.console.write([running.url])
        given.console.note("Ctrl-C ends it" + ("" if given.allow_maintenance else "; the page only looks"))
    sys.stdout.flush()
    if given.open:
        webbrowser.open(running.url)
    running.run()


def register(app: Group) -> None:
    """Add the command."""
    add(app, ui, panel=OTHER)
