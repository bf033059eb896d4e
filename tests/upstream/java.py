"""Upstream's tests in Java, said again in Scala: for `scala` to evaluate.

What has no counterpart is written as a name that nobody knows: a test that uses it is skipped.
"""

from __future__ import annotations

from collections.abc import Callable

import tree_sitter_java
from tree_sitter import Language, Node, Parser

from .nodes import text

GIVEN = {"spark", "warehousePath"}  # what `harness` has by these names
STARTS = ("spark.sql(", "createTable(", "writeTable(")  # of what a suite does first, all else starts its session
NATIVE = {"writeTable", "getTable", "row", "array", "foreachIndexReader"}  # of its functions, too
TWICE = {"SparkWriteITCase": "SparkWriteJavaITCase"}  # what a suite in Scala is called, too
STATICS = {"Integer", "Long", "String", "Arrays", "Objects", "Double", "Boolean"}
LITERALS = (
    "decimal_integer_literal",
    "hex_integer_literal",
    "decimal_floating_point_literal",
    "string_literal",
    "character_literal",
    "true",
    "false",
    "identifier",
    "this",
    "super",
    "type_identifier",
    "scoped_type_identifier",
)


def to_scala(source: bytes) -> str:
    """A file's classes."""
    root = Parser(Language(tree_sitter_java.language())).parse(source).root_node
    return "\n\n".join(class_of(one) for one in root.named_children if one.type == "class_declaration")


def class_of(node: Node) -> str:
    name, base = field(node, "name"), node.child_by_field_name("superclass")
    words = modifiers(node)
    said = "abstract class" if "abstract" in words or "Base" in text(name) else "class"
    bases = text(base.named_children[0]).split("<")[0] if base else "PaimonJavaTestBase"
    body = [member(one, text(name)) for one in named(field(node, "body"))]
    return (
        f"{said} {TWICE.get(text(name), text(name))} extends {TWICE.get(bases, bases)} {{\n"
        + "\n".join(one for one in body if one)
        + "\n}"
    )


def member(node: Node, suite: str) -> str:
    if node.type == "field_declaration":
        kept = [one for one in node.children_by_field_name("declarator") if text(field(one, "name")) not in GIVEN]
        return "\n".join(
            f"var {text(field(one, 'name'))}: Any = {optional(one.child_by_field_name('value'), suite, '_')}"
            for one in kept
        )
    if node.type == "class_declaration":
        return class_of(node).replace(" extends PaimonJavaTestBase", "")
    if node.type != "method_declaration" or text(field(node, "name")) in NATIVE:
        return ""
    return method(node, suite)


def method(node: Node, suite: str) -> str:
    name, words, body = text(field(node, "name")), modifiers(node), node.child_by_field_name("body")
    given = [one for one in named(field(node, "parameters")) if one.type in ("formal_parameter", "spread_parameter")]
    names = [text(parameter_name(one)) for one in given]
    if "@AfterAll" in words or "@AfterEach" in words or body is None:
        return ""
    if "@BeforeAll" in words:
        kept = [one for one in named(body) if text(one).startswith(STARTS)]
        return "def beforeAll(): Any = {\n" + "\n".join(say(one, suite) for one in kept) + "\n}"
    folders = "".join(
        f"val {name} = newFolder()\n" for one, name in zip(given, names, strict=True) if "@TempDir" in text(one)
    )
    if "@Test" in words:
        return f'test("{name}") {{\n{folders}{inside(body, suite)}\n}}'
    if "@ParameterizedTest" in words:
        head = f"case ({', '.join(names)})" if len(names) > 1 else f"({names[0]})"
        shown = ' + " " + '.join(names)
        return f'{given_values(node)}.foreach {{ {head} => test("{name} " + {shown}) {{\n{inside(body, suite)}\n}} }}'
    listed = ", ".join(
        f"{name}: Any*" if one.type == "spread_parameter" else f"{name}: Any"
        for one, name in zip(given, names, strict=True)
        if "@TempDir" not in text(one)
    )
    return f"def {name}({listed}): Any = {{\n{folders}{inside(body, suite)}\n}}"


def given_values(node: Node) -> str:
    """`@ValueSource` or `@CsvSource`: a list of arguments for each run."""
    notes = [note for one in node.children if one.type == "modifiers" for note in one.named_children]
    for note in notes:
        words = [text(one)[1:-1] for one in descendants(note) if one.type == "string_literal"]
        rows = [word.split(",") if text(note).startswith("@CsvSource") else [word] for word in words]
        if rows:
            return f"Array({', '.join('(' + ', '.join(map(literal, row)) + ')' for row in rows)})"
    return "valuesOfTests"


def literal(word: str) -> str:
    word = word.strip()
    return word if word in ("true", "false", "null") or word.isdigit() else f'"{word}"'


def descendants(node: Node) -> list[Node]:
    return [one for child in node.named_children for one in (child, *descendants(child))]


def parameter_name(node: Node) -> Node:
    found = node.child_by_field_name("name")
    return found if found is not None else field(named(node)[-1], "name")


def named(node: Node) -> list[Node]:
    return [one for one in node.named_children if "comment" not in one.type]


def field(node: Node, name: str) -> Node:
    found = node.child_by_field_name(name)
    assert found is not None, (node.type, name)
    return found


def modifiers(node: Node) -> set[str]:
    return {text(one).split("(")[0] for part in node.children if part.type == "modifiers" for one in part.children}


def inside(node: Node, suite: str) -> str:
    """The statements of a block."""
    return "\n".join(say(one, suite) for one in named(node))


def optional(node: Node | None, suite: str, otherwise: str = "") -> str:
    return say(node, suite) if node is not None else otherwise


def say(node: Node, suite: str) -> str:
    """A statement or an expression."""
    if node.type in LITERALS:
        return text(node)
    writer = SAID.get(node.type)
    return writer(node, suite) if writer is not None else f"java_{node.type}"


def arguments(node: Node, suite: str) -> str:
    return ", ".join(say(one, suite) for one in named(field(node, "arguments")))


def variables(node: Node, suite: str) -> str:
    return "\n".join(
        f"var {text(field(one, 'name'))} = {optional(one.child_by_field_name('value'), suite, 'null')}"
        for one in node.children_by_field_name("declarator")
    )


def called(node: Node, suite: str) -> str:
    held, name = node.child_by_field_name("object"), text(field(node, "name"))
    name = f"`{name}`" if name in ("type", "match", "val", "object", "with") else name
    return (f"{say(held, suite)}." if held is not None else "") + f"{name}({arguments(node, suite)})"


def made(node: Node, suite: str) -> str:
    if any(one.type == "class_body" for one in named(node)):
        return "java_class_body"
    kind = text(field(node, "type")).split("<")[0]
    return f"new {kind}({arguments(node, suite)})"


def function(node: Node, suite: str) -> str:
    given = field(node, "parameters")
    names = [text(one) for one in named(given)] if given.type == "inferred_parameters" else []
    if given.type == "identifier":
        names = [text(given)]
    if given.type == "formal_parameters":
        names = [text(parameter_name(one)) for one in named(given)]
    body = field(node, "body")
    said = "{\n" + inside(body, suite) + "\n}" if body.type == "block" else say(body, suite)
    return f"(({', '.join(names)}) => {said})"


def reference(node: Node, suite: str) -> str:
    first, name = text(node.children[0]), text(node.children[-1])
    if name == "new":
        return f"((it) => new {first}(it))"
    if first in ("this", suite):
        return f"((it) => {name}(it))"
    return f"((it) => {first}.{name}(it))" if first in STATICS and name != "toString" else f"((it) => it.{name}())"


def binary(node: Node, suite: str) -> str:
    return f"({say(field(node, 'left'), suite)} {text(field(node, 'operator'))} {say(field(node, 'right'), suite)})"


def counted(node: Node, suite: str) -> str:
    """`for (;;)`: a loop of `while`."""
    start, body = node.child_by_field_name("init"), field(node, "body")
    update = "\n".join(say(one, suite) for one in node.children_by_field_name("update"))
    within = inside(body, suite) if body.type == "block" else say(body, suite)
    return f"{optional(start, suite)}\nwhile ({say(field(node, 'condition'), suite)}) {{\n{within}\n{update}\n}}"


def tried(node: Node, suite: str) -> str:
    held = node.child_by_field_name("resources")
    opened = named(held) if held is not None else []
    first = "\n".join(
        f"val {text(field(one, 'name'))} = {say(field(one, 'value'), suite)}"
        for one in opened
        if one.child_by_field_name("name")
    )
    said = "{\n" + first + "\n" + inside(field(node, "body"), suite) + "\n}"
    caught = [one for one in named(node) if one.type == "catch_clause"]
    last = [one for one in named(node) if one.type == "finally_clause"]
    if not caught and not last:
        return said
    said = f"try {said}"
    if caught:
        name = text(field(next(one for one in named(caught[0]) if one.type == "catch_formal_parameter"), "name"))
        said += f" catch {{\ncase {name}: Throwable => {{\n{inside(field(caught[0], 'body'), suite)}\n}}\n}}"
    if last:
        said += " finally {\n" + inside(named(last[0])[0], suite) + "\n}"
    return said


def chosen(node: Node, suite: str) -> str:
    other = node.child_by_field_name("alternative")
    said = f"if {say(field(node, 'condition'), suite)} {say(field(node, 'consequence'), suite)}"
    return said + (f" else {say(other, suite)}" if other is not None else "")


SAID: dict[str, Callable[[Node, str], str]] = {
    "null_literal": lambda node, suite: "null",
    "scoped_identifier": lambda node, suite: text(node),
    "local_variable_declaration": variables,
    "expression_statement": lambda node, suite: say(named(node)[0], suite),
    "method_invocation": called,
    "object_creation_expression": made,
    "lambda_expression": function,
    "method_reference": reference,
    "binary_expression": binary,
    "parenthesized_expression": lambda node, suite: f"({say(named(node)[0], suite)})",
    "cast_expression": lambda node, suite: say(field(node, "value"), suite),
    "unary_expression": lambda node, suite: f"({text(field(node, 'operator'))}{say(field(node, 'operand'), suite)})",
    "instanceof_expression": lambda node, suite: (
        f"{say(field(node, 'left'), suite)}.isInstanceOf[{text(field(node, 'right')).split('.')[-1]}]"
    ),
    "ternary_expression": lambda node, suite: (
        f"(if ({say(field(node, 'condition'), suite)}) {say(field(node, 'consequence'), suite)}"
        f" else {say(field(node, 'alternative'), suite)})"
    ),
    "assignment_expression": lambda node, suite: (
        f"{say(field(node, 'left'), suite)} {text(field(node, 'operator'))} {say(field(node, 'right'), suite)}"
    ),
    "update_expression": lambda node, suite: f"{say(named(node)[0], suite)} {text(node)[-1]}= 1",
    "field_access": lambda node, suite: f"{say(field(node, 'object'), suite)}.{text(field(node, 'field'))}",
    "array_access": lambda node, suite: f"{say(field(node, 'array'), suite)}({say(field(node, 'index'), suite)})",
    "array_creation_expression": lambda node, suite: optional(node.child_by_field_name("value"), suite, "Array()"),
    "array_initializer": lambda node, suite: f"Array({', '.join(say(one, suite) for one in named(node))})",
    "element_value_array_initializer": lambda node, suite: (
        f"Array({', '.join(say(one, suite) for one in named(node))})"
    ),
    "class_literal": lambda node, suite: f"classOf[{text(named(node)[0]).split('.')[-1]}]",
    "enhanced_for_statement": lambda node, suite: (
        f"for ({text(field(node, 'name'))} <- {say(field(node, 'value'), suite)}) {say(field(node, 'body'), suite)}"
    ),
    "for_statement": counted,
    "while_statement": lambda node, suite: (
        f"while {say(field(node, 'condition'), suite)} {say(field(node, 'body'), suite)}"
    ),
    "if_statement": chosen,
    "try_statement": tried,
    "try_with_resources_statement": tried,
    "throw_statement": lambda node, suite: f"throw {say(named(node)[0], suite)}",
    "return_statement": lambda node, suite: f"return {optional(named(node)[0] if named(node) else None, suite)}",
    "assert_statement": lambda node, suite: f"assert({say(named(node)[0], suite)})",
    "block": lambda node, suite: "{\n" + inside(node, suite) + "\n}",
}
