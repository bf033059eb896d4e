"""The part of Scala that upstream's tests are written in, evaluated over Python's values.

Values: Int and Long are int (Long where it is said), Seq, Array and List list, tuples tuple, Map dict, Set set, Option a list of
at most one in `Option`, null and None of its own. What is not understood raises Unknown with its reason: a test
is then skipped, never judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tree_sitter import Node

from .functions import Env, Function, Instance, Returned, Thunk, is_of
from .operators import OPERATORS, TYPED, NoMatch, extend, operate, placeholders, thrown, unescaped
from .source import NOTHING, TYPES, Template, bound_names, fill, named, text, type_name
from .values import Long, Opaque, Option, Skipped, Unknown, equal, shown

LAMBDAS = ("lambda_expression", "case_block")


class Machine:
    """Evaluates. `known`: native names; `send`: a method of a native value, or Unknown."""

    def __init__(
        self, known: Callable[[str], Any], send: Callable[[Any, str, list[Any], dict[str, Any]], Any], line: Any
    ) -> None:
        self.known, self.send, self.line = known, send, line
        self.loose: list[str] | None = None  # reasons why values were not understood, where a run goes on without them
        self.wrong: list[str] | None = None  # what did not hold, where a run goes on behind it

    # Names

    def name(self, name: str, env: Env, count: int | None = None) -> Any:
        """What a name means, unforced; as (value,)."""
        holder = env.holder(name)
        if holder is not None:
            return (holder.names[name],)
        at: Env | None = env
        while at is not None:
            if at.this is not None:
                found = at.this.member(name, 0, count)
                if found is not None:
                    return (found.value,)
            at = at.this.outer if at.this is not None else None
        return self.known(name)

    def forced(self, value: Any) -> Any:
        if isinstance(value, Thunk):
            return value()
        if isinstance(value, Function) and not value.lists:
            return value()
        return value

    def of_type(self, found: Template, env: Env) -> Any:
        if found.node.type == "object_definition":
            holder = Instance([found], self, env)
            env.this and env.this.fields.setdefault(found.name, holder)  # type: ignore[func-returns-value]
            return holder
        return lambda *values: Instance(
            [found, *(one for parent in found.parents for one in self.line(parent))], self, env, values
        )

    # Expressions

    def value(self, node: Node, env: Env) -> Any:
        method = getattr(self, "do_" + node.type, None)
        if method is None:
            if node.type in NOTHING:
                return None
            raise Unknown(f"syntax: {node.type}")
        if self.loose is None:
            return method(node, env)
        try:
            return method(node, env)
        except Skipped:
            raise
        except Unknown as reason:
            self.loose.append(str(reason))
            return Opaque()

    def block(self, node: Node, env: Env) -> Any:
        """Statements in a scope that is given."""
        if node.type not in ("block", "indented_block", "template_body"):
            return self.argument(node, env)
        result = None
        inner = named(node)
        local = Template("", node, "", [], [], False)
        fill(local, [one for one in inner if one.type in (*TYPES, "function_definition")], "")
        for name, nodes in local.functions.items():
            env.names[name] = Function(nodes[-1], env, self)
        for name, found in local.types.items():
            env.names[name] = self.of_type(found, env)
        for one in inner:
            if one.type in TYPES or one.type == "function_definition":
                continue
            try:
                result = self.argument(one, env) if len(inner) == 1 else self.value(one, env)
            except AssertionError as error:
                if self.wrong is None:
                    raise
                self.wrong.append(str(error))
                result = Opaque()
        return result

    def do_block(self, node: Node, env: Env) -> Any:
        return self.block(node, Env(env))

    do_indented_block = do_block

    def argument(self, node: Node, env: Env) -> Any:
        """A whole expression: placeholders in it make it a function."""
        holes = list(placeholders(node)) if node.type != "wildcard" else []
        if not holes:
            return self.value(node, env)

        def function(*values: Any) -> Any:
            inner = Env(env)
            inner.names.update({one.start_byte: value for one, value in zip(holes, values, strict=False)})
            return self.value(node, inner)

        return function

    def do_wildcard(self, node: Node, env: Env) -> Any:
        holder = env.holder(node.start_byte)
        return holder.names[node.start_byte] if holder else None

    def do_identifier(self, node: Node, env: Env) -> Any:
        name = text(node)
        if name == "this":
            return env.this
        return self.forced(self.name(name, env)[0])

    def do_stable_identifier(self, node: Node, env: Env) -> Any:
        first, *rest = text(node).split(".")
        value = self.forced(self.name(first, env)[0])
        for word in rest:
            value = self.access(value, word.strip(), [], {})
        return value

    do_stable_type_identifier = do_stable_identifier
    do_type_identifier = do_identifier

    def do_integer_literal(self, node: Node, env: Env) -> Any:
        word = text(node).replace("_", "")
        return Long(int(word[:-1], 0)) if word[-1] in "lL" else int(word, 0)

    def do_floating_point_literal(self, node: Node, env: Env) -> Any:
        from .values import Float

        word = text(node).replace("_", "")
        return Float(word[:-1]) if word[-1] in "fF" else float(word.rstrip("dD"))

    def do_boolean_literal(self, node: Node, env: Env) -> Any:
        return text(node) == "true"

    def do_null_literal(self, node: Node, env: Env) -> Any:
        return None

    def do_unit(self, node: Node, env: Env) -> Any:
        return None

    def do_character_literal(self, node: Node, env: Env) -> Any:
        return unescaped(text(node)[1:-1])

    def do_string(self, node: Node, env: Env) -> Any:
        word = text(node)
        return word[3:-3] if word.startswith('"""') else unescaped(word[1:-1])

    def do_interpolated_string_expression(self, node: Node, env: Env) -> Any:
        kind, body = named(node)[0], named(node)[-1]
        raw = body.text or b""
        quotes = 3 if raw.startswith(b'"""') else 1
        parts: list[str] = []
        at = body.start_byte + quotes
        formats = text(kind) == "f"

        def literal(until: int) -> str:
            piece = raw[at - body.start_byte : until - body.start_byte].decode().replace("$$", "$")
            return piece if quotes == 3 or text(kind) == "raw" else unescaped(piece)

        held: Any = None
        for one in [*named(body), None]:
            if one is not None and one.type != "interpolation":
                continue
            piece = literal(one.start_byte if one is not None else body.end_byte - quotes)
            if formats and parts:
                spec = re.match(r"%[-+0,]*\d*(?:\.\d+)?[a-zA-Z]", piece)
                parts[-1] = (spec.group() % held) if spec else shown(held)
                piece = piece[spec.end() :] if spec else piece
            parts.append(piece)
            if one is not None:
                held = self.value(named(one)[0], env)
                parts.append(shown(held))
                at = one.end_byte
        word = "".join(parts)
        return self.known("col")[0](word) if text(kind) == "$" else word

    def do_tuple_expression(self, node: Node, env: Env) -> Any:
        values = tuple(self.argument(one, env) for one in named(node))
        return values if len(values) > 1 else values[0]

    def do_parenthesized_expression(self, node: Node, env: Env) -> Any:
        return self.argument(named(node)[0], env)

    def do_ascription_expression(self, node: Node, env: Env) -> Any:
        return self.value(named(node)[0], env)

    def do_vararg(self, node: Node, env: Env) -> Any:
        return self.value(named(node)[0], env)

    def do_prefix_expression(self, node: Node, env: Env) -> Any:
        value = self.value(named(node)[0], env)
        sign = text(node)[0]
        return (
            (not value if not hasattr(value, "isNull") else ~value) if sign == "!" else -value if sign == "-" else value
        )

    def do_infix_expression(self, node: Node, env: Env) -> Any:
        word = text(node.child_by_field_name("operator"))  # type: ignore[arg-type]
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        assert left is not None and right is not None
        if word in ("&&", "||"):
            first = self.value(left, env)
            if isinstance(first, bool):
                return first if first == (word == "||") else self.value(right, env)
            return first & self.value(right, env) if word == "&&" else first | self.value(right, env)
        if word.endswith("=") and word not in ("==", "!=", ">=", "<=", "===", "=!="):
            before, more = self.value(left, env), self.value(right, env)
            if isinstance(before, list | set | dict) and word in ("+=", "++="):
                before_is = before
                extend(before_is, [more] if word == "+=" else more)
                return before
            return self.assign(left, operate(word[:-1], before, more), env)
        if word == "::":
            tail = self.value(right, env)
            return [self.value(left, env), *tail]
        first, then = self.value(left, env), self.argument(right, env)
        return operate(word, first, then) if word in OPERATORS else self.access(first, word, [then], {})

    def do_call_expression(self, node: Node, env: Env) -> Any:
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        assert function is not None and arguments is not None
        types: list[str] = []
        if function.type == "generic_function":
            types = [text(one) for one in named(named(function)[-1])]
            function = function.child_by_field_name("function")
        assert function is not None
        if function.type == "field_expression":
            held, word = function.child_by_field_name("value"), text(function.child_by_field_name("field"))  # type: ignore[arg-type]
            assert held is not None
            if text(held) == "super" and env.this is not None:
                found = env.this.member(word, env.level + 1, len(named(arguments)))
                target = found.value if found is not None else self.known(word)[0]
                values, names = self.arguments(arguments, env, target)
                return self.call(target, values, names)
            receiver = self.value(held, env)
            target = vars(receiver).get(word) if type(receiver).__name__ == "SimpleNamespace" else None
            if isinstance(receiver, Instance):
                found = receiver.member(word, 0, len(named(arguments)))
                target = found.value if found is not None else None
            values, names = self.arguments(arguments, env, target)
            if types:
                names = {**names, "types": types} if word in TYPED else names
            return self.access(receiver, word, values, names)
        if function.type == "identifier":
            target = self.name(text(function), env, len(named(arguments)))[0]
            if isinstance(target, Function) and not target.lists:
                target = target()
            if isinstance(target, Thunk):
                target = target()
        else:
            target = self.value(function, env)
        if types and getattr(target, "typed", False):
            values, names = self.arguments(arguments, env, target)
            return target(types, *values, **names)
        values, names = self.arguments(arguments, env, target)
        return self.call(target, values, names)

    def do_generic_function(self, node: Node, env: Env) -> Any:
        function = node.child_by_field_name("function")
        types = [text(one) for one in named(named(node)[-1])]
        assert function is not None
        if function.type == "field_expression":
            receiver = self.value(function.child_by_field_name("value"), env)  # type: ignore[arg-type]
            word = text(function.child_by_field_name("field"))  # type: ignore[arg-type]
            return self.access(receiver, word, [], {"types": types} if word in TYPED else {})
        target = self.value(function, env)
        return target(types) if getattr(target, "typed", False) else target

    def arguments(self, node: Node, env: Env, target: Any) -> tuple[list[Any], dict[str, Any]]:
        if node.type == "case_block":
            return [self.value(node, env)], {}
        if node.type in ("block", "indented_block"):
            inner = named(node)
            if len(inner) == 1 and inner[0].type in LAMBDAS:
                return [self.value(inner[0], env)], {}
            lazy = getattr(target, "by_name", False)
            lazy = lazy(0) if callable(lazy) else lazy
            return [Thunk(node, env, self) if lazy else self.block(node, Env(env))], {}
        values: list[Any] = []
        names: dict[str, Any] = {}
        for at, one in enumerate(named(node)):
            lazy = getattr(target, "by_name", False)
            lazy = lazy(at) if callable(lazy) else lazy
            if (
                one.type == "assignment_expression"
                and (left := one.child_by_field_name("left")) is not None
                and left.type == "identifier"
            ):
                names[text(left)] = self.argument(one.child_by_field_name("right"), env)  # type: ignore[arg-type]
            elif lazy:
                values.append(Thunk(one, env, self))
            elif one.type == "vararg":
                values.extend(list(self.value(one, env)))
            elif one.type == "identifier":
                found = self.name(text(one), env)[0] if text(one) != "this" else env.this
                values.append(self.forced(found))
            else:
                values.append(self.argument(one, env))
        return values, names

    def call(self, target: Any, values: list[Any], names: dict[str, Any]) -> Any:
        if isinstance(target, Instance):
            return self.access(target, "apply", values, names)
        if callable(target):
            return target(*values, **names)
        return self.send(target, "apply", values, names)

    def do_field_expression(self, node: Node, env: Env) -> Any:
        held, word = node.child_by_field_name("value"), text(node.child_by_field_name("field"))  # type: ignore[arg-type]
        assert held is not None
        if text(held) == "super" and env.this is not None:
            found = env.this.member(word, env.level + 1)
            return self.forced(found.value if found is not None else self.known(word)[0])
        return self.access(self.value(held, env), word, [], {})

    def access(self, value: Any, word: str, values: list[Any], names: dict[str, Any]) -> Any:
        if isinstance(value, Instance):
            found = value.member(word, 0, len(values))
            if found is None:
                return self.of_instance(value, word, values)
            member = found.value
            if isinstance(member, Function):
                if not member.lists:
                    result = member()
                    return self.call(result, values, names) if values else result
                return member(*values, **names)
            return self.call(member, values, names) if values or names else self.forced(member)
        return self.send(value, word, values, names)

    def of_instance(self, value: Instance, word: str, values: list[Any]) -> Any:
        if word == "toString":
            return f"{value.line[0].name}({','.join(shown(one) for one in value.given.values())})"
        if word == "copy":
            return Instance(value.line, self, value.outer, value.given.values())
        if word == "equals":
            return value == values[0]
        if word == "asInstanceOf":
            return value
        return self.call(self.known(word)[0], values, {})

    # Control

    def do_if_expression(self, node: Node, env: Env) -> Any:
        condition = self.value(node.child_by_field_name("condition"), env)  # type: ignore[arg-type]
        chosen = node.child_by_field_name("consequence" if condition else "alternative")
        return self.value(chosen, env) if chosen is not None else None

    def do_while_expression(self, node: Node, env: Env) -> Any:
        condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
        for _ in range(10_000):
            if not self.value(condition, env):  # type: ignore[arg-type]
                return None
            self.value(body, env)  # type: ignore[arg-type]
        raise Unknown("a loop without an end")

    def do_return_expression(self, node: Node, env: Env) -> Any:
        raise Returned(self.value(named(node)[0], env) if named(node) else None)

    def do_throw_expression(self, node: Node, env: Env) -> Any:
        raise thrown(self.value(named(node)[0], env))

    def do_try_expression(self, node: Node, env: Env) -> Any:
        body = node.child_by_field_name("body")
        catch = next((one for one in named(node) if one.type == "catch_clause"), None)
        final = next((one for one in named(node) if one.type == "finally_clause"), None)
        try:
            return self.value(body, env)  # type: ignore[arg-type]
        except (Unknown, Returned, AssertionError):
            raise
        except Exception as error:
            if catch is None:
                raise
            for clause in named(named(catch)[0]):
                inner = Env(env)
                if self.clause_matches(clause, error, inner):
                    return self.clause_body(clause, inner)
            raise
        finally:
            if final is not None:
                self.value(named(final)[0], env)

    def do_for_expression(self, node: Node, env: Env) -> Any:
        steps = [step for one in node.children_by_field_name("enumerators") for step in named(one)]
        body = node.child_by_field_name("body")
        gives = any(one.type == "yield" for one in node.children)
        results: list[Any] = []

        def go(at: int, inner: Env) -> None:
            if at == len(steps):
                results.append(self.value(body, Env(inner)))  # type: ignore[arg-type]
                return
            parts = [one for one in named(steps[at]) if one.type != "guard"]
            guards = [one for one in named(steps[at]) if one.type == "guard"]
            if not parts or steps[at].type == "guard":
                if self.value(named(steps[at])[0], inner):
                    go(at + 1, inner)
                return
            source = self.value(parts[1], inner)
            each = source if any(one.type == "<-" for one in steps[at].children) else [source]
            for value in list(each):
                scope = Env(inner)
                self.bind(parts[0], value, scope)
                if all(self.value(named(one)[0], scope) for one in guards):
                    go(at + 1, scope)

        go(0, env)
        return results if gives else None

    def do_lambda_expression(self, node: Node, env: Env) -> Any:
        given = node.child_by_field_name("parameters")
        assert given is not None
        wanted = [given] if given.type in ("identifier", "wildcard") else named(given)
        body = named(node)[-1] if named(node)[-1] is not given else None

        def function(*values: Any) -> Any:
            if len(wanted) > 1 and len(values) == 1 and isinstance(values[0], tuple):
                values = tuple(values[0])
            inner = Env(env)
            for one, value in zip(wanted, values, strict=False):
                name = one.child_by_field_name("name") if one.type == "binding" else one
                if name is not None and name.type == "identifier":
                    inner.names[text(name)] = value
            return self.block(body, inner) if body is not None else None

        return function

    def do_case_block(self, node: Node, env: Env) -> Any:
        def function(*values: Any) -> Any:
            value = values[0] if len(values) == 1 else tuple(values)
            for clause in named(node):
                inner = Env(env)
                if self.clause_matches(clause, value, inner):
                    return self.clause_body(clause, inner)
            raise NoMatch(shown(value))

        return function

    def do_match_expression(self, node: Node, env: Env) -> Any:
        value = self.value(node.child_by_field_name("value"), env)  # type: ignore[arg-type]
        return self.do_case_block(node.child_by_field_name("body"), env)(value)  # type: ignore[arg-type]

    def clause_matches(self, clause: Node, value: Any, env: Env) -> bool:
        pattern = clause.child_by_field_name("pattern")
        guard = next((one for one in named(clause) if one.type == "guard"), None)
        if not self.bind(pattern, value, env):
            return False
        return guard is None or bool(self.value(named(guard)[0], env))

    def clause_body(self, clause: Node, env: Env) -> Any:
        bodies = clause.children_by_field_name("body")
        result = None
        for one in bodies:
            result = self.block(one, env)
        return result

    # Patterns and assignments

    def bind(self, pattern: Node | None, value: Any, env: Env) -> bool:
        """Whether a value has the form; its names are given their parts."""
        assert pattern is not None
        kind, word = pattern.type, text(pattern)
        if kind == "wildcard":
            return True
        if kind == "identifier" and (word[0].islower() or word[0] == "_"):
            env.names[word] = value
            return True
        if kind in (
            "identifier",
            "stable_identifier",
            "integer_literal",
            "string",
            "boolean_literal",
            "null_literal",
            "floating_point_literal",
            "interpolated_string_expression",
            "field_expression",
        ):
            return equal(self.value(pattern, env), value)
        if kind == "identifiers":
            return all(self.bind(one, value, env) for one in named(pattern))
        parts = named(pattern)
        if kind == "typed_pattern":
            return is_of(value, type_name(parts[-1])) and self.bind(parts[0], value, env)
        if kind == "capture_pattern":
            return self.bind(parts[1], value, env) and self.bind(parts[0], value, env)
        if kind == "alternative_pattern":
            return any(self.bind(one, value, env) for one in parts)
        if kind == "tuple_pattern":
            return (
                isinstance(value, tuple | list)
                and len(value) == len(parts)
                and all(self.bind(one, part, env) for one, part in zip(parts, value, strict=True))
            )
        if kind == "infix_pattern":
            return (
                isinstance(value, list)
                and bool(value)
                and self.bind(parts[0], value[0], env)
                and self.bind(parts[-1], value[1:], env)
            )
        if kind == "case_class_pattern":
            return self.unapply(type_name(parts[0]), parts[1:], value, env)
        raise Unknown(f"pattern: {kind}")

    def unapply(self, name: str, parts: list[Node], value: Any, env: Env) -> bool:
        if isinstance(value, Instance):
            fields = list(value.given.values())
            if value.line[0].name != name:
                return False
        elif name == "Some":
            fields = list(value) if isinstance(value, Option) else []
        elif name in ("Row", "Seq", "Array", "List") and isinstance(value, tuple | list):
            fields = list(value)
        elif name in ("Success", "Failure", "Right", "Left", "NonFatal"):
            raise Unknown(f"pattern {name}")
        else:
            raise Unknown(f"pattern {name}")
        return len(fields) == len(parts) and all(
            self.bind(one, field, env) for one, field in zip(parts, fields, strict=True)
        )

    def do_val_definition(self, node: Node, env: Env) -> Any:
        given = node.child_by_field_name("value")
        pattern = node.child_by_field_name("pattern")
        if given is None:
            return
        if any(text(one) == "lazy" for part in node.children if part.type == "modifiers" for one in part.children):
            thunk = Thunk(given, env, self)
            for name in bound_names(pattern):
                env.names[name] = thunk
            return
        value = self.argument(given, env)
        if not self.define(pattern, value, env):
            raise NoMatch(shown(value))

    def define(self, pattern: Node, value: Any, env: Env) -> bool:
        """As `bind`, but a single name is always a new one, whatever its case."""
        if pattern.type == "identifier":
            env.names[text(pattern)] = value
            return True
        return self.bind(pattern, value, env)

    do_var_definition = do_val_definition

    def do_function_definition(self, node: Node, env: Env) -> Any:
        env.names[text(node.child_by_field_name("name"))] = Function(node, env, self)  # type: ignore[arg-type]

    def do_assignment_expression(self, node: Node, env: Env) -> Any:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        return self.assign(left, self.value(right, env), env)  # type: ignore[arg-type]

    def assign(self, left: Node, value: Any, env: Env) -> Any:
        if left.type == "identifier":
            holder = env.holder(text(left))
            if holder is not None:
                holder.names[text(left)] = value
            elif env.this is not None:
                env.this.fields[text(left)] = value
            return None
        if left.type == "call_expression":
            held = self.value(left.child_by_field_name("function"), env)  # type: ignore[arg-type]
            values, _ = self.arguments(left.child_by_field_name("arguments"), env, None)  # type: ignore[arg-type]
            held[values[0]] = value
            return None
        raise Unknown("assignment to a field")

    def do_instance_expression(self, node: Node, env: Env) -> Any:
        parts = named(node)
        name = type_name(parts[0])
        given = next((one for one in parts if one.type == "arguments"), None)
        body = next((one for one in parts if one.type == "template_body"), None)
        if body is not None:
            local = Template(name, node, "", [name], [], False)
            fill(local, named(body), "")
            return Instance([local, *self.line(name)], self, env)
        target = self.name(name, env)[0]
        values, names = self.arguments(given, env, target) if given is not None else ([], {})
        if name == "Array" and len(values) == 1 and isinstance(values[0], int):
            return [0] * values[0]
        if name == "String" and len(values) == 1 and isinstance(values[0], list):
            return "".join(map(shown, values[0]))
        return self.call(target, values, names)
