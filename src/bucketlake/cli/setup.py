"""`config …`, `completion`: warehouses by name, and the shell."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from bucketlake.cli.answer import Answer, Facts, Rows, UsageError, columns
from bucketlake.cli.command import OTHER, Arguments, WithFormat, WithJson, add
from bucketlake.cli.completion import SCRIPTS
from bucketlake.cli.grammar import Argument, Group, Option
from bucketlake.cli.output import confirmed
from bucketlake.cli.text import clean, is_terminal
from bucketlake.cli.warehouse import pairs_of
from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.lazy import lazy
from bucketlake.redaction import redact, redact_options

if TYPE_CHECKING:
    import getpass

    from bucketlake.cli import settings
    from bucketlake.cli.settings import Named
else:
    getpass = lazy("getpass")
    settings = lazy("bucketlake.cli.settings")

INTO = {
    "bash": "~/.bashrc: source <(bucketlake completion bash)",
    "zsh": "~/.zshrc: source <(bucketlake completion zsh)",
    "fish": "~/.config/fish/completions/bucketlake.fish",
}


class Completion(Arguments):
    """What `completion` takes."""

    shell: Annotated[str | None, Argument(metavar="[SHELL]", help="bash, zsh or fish; yours by default.")] = None


def completion(given: Completion) -> None:
    """Print a script that completes commands and tables."""
    shell = given.shell or os.path.basename(os.environ.get("SHELL", ""))
    if shell not in SCRIPTS:
        raise UsageError("no such shell", shell=shell, remedy="bash, zsh or fish")
    given.console.write([SCRIPTS[shell]])
    if is_terminal(sys.stdout):
        given.console.note(f"into {INTO[shell]}")


# ---- warehouses by name


class List(WithFormat):
    """`config list` takes nothing of its own."""


def list_(given: List) -> Rows:
    """List the warehouses of the configuration; of secrets only where they are."""
    found = settings.load()
    rows = [(*_shown(one), one.name == found.default) for one in found.warehouses.values()]
    return Rows(rows, hint="none yet: bucketlake config add NAME FOLDER")


def _shown(one: Named) -> tuple[str, str, dict[str, str], dict[str, str]]:
    return one.name, redact(one.warehouse), redact_options(one.options), dict(one.secrets)


class OfName(WithJson):
    """A command about a named warehouse."""

    name: Annotated[str, Argument(metavar="NAME", help="The warehouse's name.")]


class Add(OfName):
    """What `config add` takes."""

    place: Annotated[str, Argument(metavar="PLACE", help="Its folder or URI, or what a REST server calls it.")]
    option: Annotated[
        list[str] | None, Option("--option", metavar="KEY=VALUE", help="An option: s3.endpoint=https://…")
    ] = None
    secret: Annotated[
        list[str] | None,
        Option("--secret", metavar="KEY=env:NAME", help="Where a secret is: env:NAME, or keyring."),
    ] = None
    default: Annotated[bool, Option("--default", help="Make it the default warehouse.")] = False
    replace: Annotated[bool, Option("--replace", help="Replace a warehouse of the same name.")] = False


def add_(given: Add) -> Facts:
    """Name a warehouse, with its storage options. Secrets are not written down: say where they are."""
    if not given.name.replace("-", "").replace("_", "").isalnum():
        raise UsageError("not a name", name=given.name, remedy="use letters, digits, '_' and '-'")
    found = settings.load()
    if given.name in found.warehouses and not given.replace:
        raise InvalidError("the name is taken", name=given.name, remedy="add --replace, or choose another one")
    options, secrets = pairs_of(given.option, "--option"), pairs_of(given.secret, "--secret")
    named_by_server = options.get("metastore", "").lower() == "rest"
    local = "://" not in given.place and not named_by_server
    place = os.path.abspath(os.path.expanduser(given.place)) if local else given.place
    named = settings.Named(given.name, place, options, secrets)
    first = given.default or not found.warehouses
    default = given.name if first else found.default
    settings.save(replace(found, default=default, warehouses={**found.warehouses, given.name: named}))
    return _told(named, default, f"{given.name} is {redact(place)}" + (", the default" if first else ""))


def _told(named: Named, default: str | None, text: str) -> Facts:
    name, place, options, secrets = _shown(named)
    values = {"name": name, "warehouse": place, "options": options, "secrets": secrets, "default": name == default}
    return Facts(values, text=[clean(text)])


def _named(name: str) -> Named:
    found = settings.load()
    if name not in found.warehouses:
        known = ", ".join(sorted(found.warehouses)) or "none yet: bucketlake config add NAME FOLDER"
        raise NotFoundError("no such warehouse in the configuration", name=name, remedy=f"names: {known}")
    return found.warehouses[name]


class Remove(OfName):
    """What `config remove` takes."""

    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False


def remove(given: Remove) -> Facts:
    """Forget a warehouse's name, and its secrets in the keyring; the warehouse itself stays."""
    named = _named(given.name)
    confirmed(f"Forget {given.name} ({redact(named.warehouse)})?", given.yes, "add --yes")
    for key, reference in named.secrets.items():
        if reference == "keyring":
            settings.forget_secret(given.name, key)
    found = settings.load()
    left = {name: one for name, one in found.warehouses.items() if name != given.name}
    default = None if found.default == given.name else found.default
    settings.save(replace(found, default=default, warehouses=left))
    return _told(named, default, f"forgot {given.name}")


class Default(OfName):
    """`config default` takes a name."""


def default_(given: Default) -> Facts:
    """Choose the default warehouse."""
    named = _named(given.name)
    settings.save(replace(settings.load(), default=given.name))
    return _told(named, given.name, f"{given.name} is the default")


class Secret(OfName):
    """What `config secret` takes."""

    key: Annotated[str, Argument(metavar="KEY", help="The option: s3.secret-key.")]


def secret(given: Secret) -> Facts:
    """Put a secret into the machine's keyring: asked for, or read from standard input; never shown."""
    named = _named(given.name)
    if is_terminal(sys.stdin):
        value = getpass.getpass(f"{given.key} of {given.name}: ")
    else:
        value = sys.stdin.readline().rstrip("\r\n")
    if not value:
        raise InvalidError("no secret was given", name=given.name, option=given.key)
    settings.store_secret(given.name, given.key, value)
    found = settings.load()
    kept = replace(named, secrets={**named.secrets, given.key: "keyring"})
    settings.save(replace(found, warehouses={**found.warehouses, given.name: kept}))
    return _told(kept, found.default, f"{given.key} of {given.name} is in the keyring")


class Path(WithJson):
    """`config path` takes nothing."""


def path(given: Path) -> Answer:
    """Print where the configuration lies."""
    return Facts({"path": settings.path()}, text=[clean(settings.path())])


def register(app: Group) -> None:
    """Register the family."""
    group = Group("config", "Warehouses by name, with their storage options.", OTHER)
    named = columns(
        name="its name",
        warehouse="folder or URI",
        options="map: storage options",
        secrets="map: options that are secrets, and where they are: env:NAME or keyring",
        default="flag: whether it is meant where none is said",
    )
    add(group, list_, "list", answers=("rows", named))
    add(group, add_, "add", answers=("facts", named))
    add(group, remove, answers=("facts", named))
    add(group, default_, "default", answers=("facts", named))
    add(group, secret, answers=("facts", named))
    add(group, path, answers=("facts", columns(path="the file")))
    app.add_command(group)
    add(app, completion, panel=OTHER)
