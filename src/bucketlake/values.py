"""Dataclasses whose methods are compiled at their first use: `from bucketlake.values import dataclass`.

The standard decorator compiles six functions a class when the class is made, half a millisecond of it; a process uses
few of the package's classes. Here the class has its fields and slots at once, and its methods are those of the standard
decorator, made when one of them is first called. Nothing else differs.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_METHODS = ("__init__", "__repr__", "__eq__", "__hash__")


def _late(made: type, name: str, compiled: Callable[[], None]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **named: Any) -> Any:
        compiled()
        return getattr(made, name)(self, *args, **named)

    method.__name__, method.__qualname__ = name, f"{made.__qualname__}.{name}"
    return method


class _Signature:
    """What `inspect.signature`, `help` and IPython show of a class: its fields, which the methods above hide."""

    def __init__(self, compiled: Callable[[], None]) -> None:
        self._compiled = compiled

    def __get__(self, instance: object, owner: type) -> Any:
        self._compiled()
        found = inspect.signature(owner.__init__)  # type: ignore[misc]
        return found.replace(parameters=list(found.parameters.values())[1:])


def _refuse_set(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, item.name) for item in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for item, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, item.name, value)  # what is frozen refuses its own


def _same(item: Any) -> Any:
    """The field once more: a Field belongs to one class."""
    kept = {key: getattr(item, key) for key in ("init", "repr", "hash", "compare", "metadata", "kw_only")}
    if item.default is not dataclasses.MISSING:
        kept["default"] = item.default
    if item.default_factory is not dataclasses.MISSING:
        kept["default_factory"] = item.default_factory
    return dataclasses.field(**kept)


def _dataclass(*, frozen: bool = False, slots: bool = False, eq: bool = True) -> Callable[[type], type]:
    def make(given: type) -> type:
        if any(dataclasses.is_dataclass(base) for base in given.__mro__[1:]):
            return dataclasses.dataclass(frozen=frozen, slots=slots, eq=eq)(given)
        given.__doc__ = given.__doc__ or given.__name__
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(given)
        made.__dataclass_params__.frozen = frozen  # asked by classes that inherit from this one
        own = vars(made)
        hashed = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
        wanted = {"__init__", "__repr__"} | ({"__eq__"} if eq else set()) | ({"__hash__"} if eq and frozen else set())
        late = [name for name in _METHODS if name in wanted and (not hashed if name == "__hash__" else name not in own)]

        def compiled() -> None:
            parts = [(item.name, item.type, _same(item)) for item in dataclasses.fields(made)]
            after = {"__post_init__": made.__post_init__} if hasattr(made, "__post_init__") else {}
            whole = dataclasses.make_dataclass(made.__name__, parts, namespace=after, frozen=frozen, eq=eq)
            for name in late:
                setattr(made, name, getattr(whole, name))

        for name in late:
            setattr(made, name, _late(made, name, compiled))
        made.__signature__ = _Signature(compiled)
        if eq and not frozen and not hashed:
            made.__hash__ = None
        if frozen:
            made.__setattr__, made.__delattr__ = _refuse_set, _refuse_delete
            if slots and "__getstate__" not in own:
                made.__getstate__, made.__setstate__ = _state, _set_state
        return made  # type: ignore[no-any-return]

    return make


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(given: type | None = None, /, **how: bool) -> Any:
        """As `dataclasses.dataclass`, of its options `frozen`, `slots` and `eq`."""
        return _dataclass(**how) if given is None else _dataclass(**how)(given)
