"""Upstream's test sources: read from a git directory, parsed, and every class, trait and object in them by its name."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import tree_sitter_scala
from tree_sitter import Language, Node, Parser

from .java import to_scala
from .nodes import text

SHARED = "paimon-spark/paimon-spark-ut/src/test/scala"
SHARED_JAVA = "paimon-spark/paimon-spark-ut/src/test/java"
NEWEST = "paimon-spark/paimon-spark-4.1/src/test/scala"  # where the suites stand that the shared bases are made for
TYPES = ("class_definition", "trait_definition", "object_definition")
MEMBERS = ("val_definition", "var_definition", "function_definition", *TYPES)
NOTHING = ("import_declaration", "comment", "block_comment", "package_clause", "function_declaration", "self_type")


@dataclass(eq=False)
class Template:
    """A class, trait or object: what it extends, what it defines, what its body does."""

    name: str
    node: Node
    file: str
    parents: list[str]
    parameters: list[Node]
    abstract: bool
    functions: dict[str, list[Node]] = field(default_factory=dict)
    values: dict[str, Node] = field(default_factory=dict)
    types: dict[str, Template] = field(default_factory=dict)
    statements: list[Node] = field(default_factory=list)


def named(node: Node) -> list[Node]:
    """What of a node counts: no punctuation, no comments."""
    return [one for one in node.named_children if one.type not in ("comment", "block_comment")]


def template(node: Node, file: str) -> Template:
    name = node.child_by_field_name("name")
    extends = node.child_by_field_name("extend")
    body = node.child_by_field_name("body")
    parents = [type_name(one) for one in named(extends) if one.type != "arguments"] if extends else []
    parameters = [one for given in node.children_by_field_name("class_parameters") for one in named(given)]
    words = {text(one) for part in node.children if part.type == "modifiers" for one in part.children}
    abstract = node.type == "trait_definition" or "abstract" in words
    found = Template(text(name), node, file, parents, parameters, abstract)  # type: ignore[arg-type]
    fill(found, named(body) if body else [], file)
    return found


def fill(found: Template, nodes: list[Node], file: str) -> None:
    for one in nodes:
        if one.type == "function_definition":
            found.functions.setdefault(text(one.child_by_field_name("name")), []).append(one)  # type: ignore[arg-type]
        elif one.type in ("val_definition", "var_definition"):
            for name in bound_names(one.child_by_field_name("pattern")):
                found.values[name] = one
        elif one.type in TYPES:
            inner = template(one, file)
            found.types[inner.name] = inner
        elif one.type not in NOTHING and "definition" not in one.type and "declaration" not in one.type:
            found.statements.append(one)


def bound_names(pattern: Node | None) -> Iterator[str]:
    if pattern is None:
        return
    if pattern.type == "identifier":
        yield text(pattern)
    for one in named(pattern):
        if one.type not in ("type_identifier", "type_arguments", "generic_type"):
            yield from bound_names(one)


def type_name(node: Node | None) -> str:
    """`C` of `a.b.C[Int]`."""
    if node is None:
        return ""
    return text(node).split("[")[0].strip().split(".")[-1]


class Checkout:
    """One commit of upstream: its files, and the templates of its tests for the newest Spark."""

    def __init__(self, place: Path, commit: str = "HEAD") -> None:
        self.place, self.commit = place, commit
        self.templates: dict[str, Template] = {}
        self.files: dict[str, str] = {}
        parser = Parser(Language(tree_sitter_scala.language()))
        listed = self.git("ls-tree", "-r", "--name-only", commit, SHARED, SHARED_JAVA, NEWEST).decode().split()
        if not listed:
            raise SystemExit(f"{place} holds no {SHARED} at {commit}")
        for path in (one for one in listed if one.endswith((".scala", ".java"))):
            source = self.git("show", f"{commit}:{path}")
            tree = parser.parse(source if path.endswith(".scala") else to_scala(source).encode())
            for node in tree.root_node.named_children:
                if node.type in TYPES:
                    found = template(node, path)
                    before = self.templates.get(found.name)
                    if before is None or node.type != "object_definition":
                        self.templates[found.name] = found

    def git(self, *words: str) -> bytes:
        return subprocess.run(["git", "-C", str(self.place), *words], capture_output=True, check=True).stdout

    def line(self, name: str) -> list[Template]:
        """A template and all that it extends, as Scala looks for members: the most derived first."""
        found = self.templates.get(name)
        if found is None or name in NATIVE:
            return []
        seen: list[Template] = []
        for parent in found.parents:
            seen = [one for one in self.line(parent) if one not in seen] + seen
        return [found, *seen]

    def suites(self) -> Iterator[list[Template]]:
        """The lines of all that ScalaTest would run."""
        for name, found in sorted(self.templates.items(), key=lambda one: (one[1].file, one[0])):
            line = self.line(name)
            bases = {parent for one in line for parent in one.parents}
            if not found.abstract and bases & SUITES and found.node.type == "class_definition":
                yield line


SERVED = {"PaimonHiveTestBase", "PaimonSparkTestWithRestCatalogBase"}  # a SQL catalog stands for these services
NATIVE = {
    "PaimonSparkTestBase",
    "PaimonJavaTestBase",
    "WithTableOptions",
    "SparkVersionSupport",
    *SERVED,
}  # `harness` stands for them
SUITES = {
    "PaimonSparkTestBase",
    "PaimonJavaTestBase",
    "QueryTest",
    "PaimonHiveTestBase",
    "PaimonSparkTestWithRestCatalogBase",
    "SparkFunSuite",
}
