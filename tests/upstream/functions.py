"""Functions, objects and scopes of the Scala that is evaluated: what a name stands for where."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tree_sitter import Node

from .source import Template, named, text
from .values import Single, Unknown

if TYPE_CHECKING:
    from .scala import Machine


class Returned(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class Thunk:
    """An argument by name: evaluated when it is asked for, each time."""

    def __init__(self, node: Node, env: Env, machine: Machine) -> None:
        self.node, self.env, self.machine = node, env, machine

    def __call__(self) -> Any:
        return self.machine.block(self.node, Env(self.env))


class Env:
    """Names of a block; below it those around it, and the instance that it stands in."""

    def __init__(self, around: Env | None, this: Instance | None = None, level: int = 0) -> None:
        self.names: dict[Any, Any] = {}
        self.around = around
        self.this: Instance | None = this if this is not None else (around.this if around else None)
        self.level: int = level if this is not None else (around.level if around else 0)

    def holder(self, name: Any) -> Env | None:
        env: Env | None = self
        while env is not None:
            if name in env.names:
                return env
            env = env.around
        return None


class Function:
    """A `def`: its lists of parameters, filled one after the other."""

    def __init__(
        self, node: Node, env: Env, machine: Machine, given: dict[str, Any] | None = None, at: int = 0
    ) -> None:
        self.node, self.env, self.machine, self.given, self.at = node, env, machine, given or {}, at
        lists = node.children_by_field_name("parameters")
        self.lists = [one for one in lists if not text(one).startswith("(implicit")]
        self.body = node.child_by_field_name("body")

    def parameters(self) -> list[Node]:
        return (
            [one for one in named(self.lists[self.at]) if one.type == "parameter"] if self.at < len(self.lists) else []
        )

    def accepts(self, count: int) -> bool:
        wanted = self.parameters()
        needed = [one for one in wanted if one.child_by_field_name("default_value") is None and not repeated(one)]
        return len(needed) <= count and (count <= len(wanted) or any(repeated(one) for one in wanted))

    def by_name(self, at: int) -> bool:
        wanted = self.parameters()
        kind = wanted[min(at, len(wanted) - 1)].child_by_field_name("type") if wanted else None
        return kind is not None and kind.type == "lazy_parameter_type"

    def __call__(self, *values: Any, **named_values: Any) -> Any:
        given, env = dict(self.given), Env(self.env)
        env.names.update(given)
        rest = list(values)
        for one in self.parameters():
            name = text(one.child_by_field_name("name"))  # type: ignore[arg-type]
            default = one.child_by_field_name("default_value")
            if name in named_values:
                given[name] = named_values[name]
            elif repeated(one):
                given[name], rest = rest, []
            elif rest:
                given[name] = rest.pop(0)
            elif default is not None:
                given[name] = self.machine.value(default, env)
            else:
                raise Unknown(f"too few arguments of {text(self.node)[:40]}")
            env.names[name] = given[name]
        if self.at + 1 < len(self.lists):
            return Function(self.node, self.env, self.machine, given, self.at + 1)
        try:
            return self.machine.block(self.body, env) if self.body else None
        except Returned as returned:
            return returned.value


def repeated(parameter: Node) -> bool:
    kind = parameter.child_by_field_name("type")
    return kind is not None and kind.type == "repeated_parameter_type"


class Instance:
    """An object of a class that the tests define; `line`: its template and those it extends."""

    def __init__(self, line: list[Template], machine: Machine, env: Env | None, values: Iterable[Any] = ()) -> None:
        self.line, self.machine, self.outer = line, machine, env
        self.fields: dict[str, Any] = {}
        for one, value in zip(line[0].parameters if line else [], values, strict=False):
            self.fields[text(one.child_by_field_name("name"))] = value  # type: ignore[arg-type]
        self.given = dict(self.fields)

    def env(self, level: int = 0) -> Env:
        return Env(self.outer, self, level)

    def run(self) -> None:
        """What the bodies do beside defining, the base's first."""
        for level in reversed(range(len(self.line))):
            for node in self.line[level].statements:
                self.machine.value(node, self.env(level))

    def member(self, name: str, level: int = 0, count: int | None = None) -> Any:
        """A member's value (one in `Single`), or None: from `level` on, functions of so many arguments first."""
        if level == 0 and name in self.fields:
            return Single(self.fields[name])
        for at in range(level, len(self.line)):
            one, env = self.line[at], self.env(at)
            if name in one.functions:
                found = [Function(node, env, self.machine) for node in one.functions[name]]
                fits = [each for each in found if count is None or each.accepts(count)]
                if not fits and at + 1 < len(self.line):
                    later = self.member(name, at + 1, count)
                    if later is not None:
                        return later
                return Single((fits or found)[0])
            if name in one.values:
                node = one.values[name]
                value = node.child_by_field_name("value")
                scope = Env(env)
                result = self.machine.value(value, scope) if value is not None else None
                self.machine.define(node.child_by_field_name("pattern"), result, scope)
                self.fields.update({each: scope.names[each] for each in scope.names if isinstance(each, str)})
                return Single(self.fields[name])
            if name in one.types:
                return Single(self.machine.of_type(one.types[name], env))
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instance) and self.line[0] is other.line[0] and self.given == other.given

    def __hash__(self) -> int:
        return hash((self.line[0].name, str(self.given)))


def is_of(value: Any, name: str) -> bool:
    from .values import KINDS

    if isinstance(value, Instance):
        return any(one.name == name or name in one.parents for one in value.line)
    if name not in KINDS and not name.endswith(("Exception", "Error", "Throwable")):
        raise Unknown(f"type {name}")
    return isinstance(value, KINDS.get(name, Exception))
