"""Calls that the command line does not take: what is nearest is told."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("rescale t 4", "Unexpected argument '4': rescale takes TABLE. Did you mean '--buckets 4'?"),
        ("cat t 3", "cat takes TABLE. Did you mean '--limit 3' or '--snapshot 3'?"),
        ("cat t id,name", "Did you mean '--columns id,name'?"),
        ("cat t id=3", "Did you mean '--where id=3'?"),
        ("cat t rows.csv", "Did you mean '--output rows.csv'?"),
        ("cat t a b", "Unexpected arguments 'a' 'b': cat takes TABLE."),
        ("orphans t 7d", "Did you mean '--older-than 7d'?"),
        ("databases x", "databases takes options alone."),
        ("cat t --snapsho 1", "No such option '--snapsho'. Did you mean '--snapshot'?"),
        ("expire t --retain-mx 3", "Did you mean '--retain-max'?"),
        ("cat t -limit 3", "No such option '-limit'. Did you mean '--limit'?"),
        ("cat t --as_of 2026-01-01", "Did you mean '--as-of'?"),
        ("import x.csv t --primary-key id", "Did you mean '--key'?"),
        ("import x.csv t --mode append", "Did you mean '--if-exists'?"),
        ("import x.csv t --no-key", "Did you mean '--key none'?"),
        ("import x.csv t --no-primary-key", "Did you mean '--key none'?"),
        ("create t --no-key", "Did you mean '--key'?"),
        ("cat t --path x.csv", "Did you mean '--output' or '--warehouse'?"),
        ("compact t --full", "It is what compact does without '--minor'."),
        ("tag --json create t x", "'--json' stands behind the command: bucketlake tag create … --json"),
        ("branch --yes delete t b", "'--yes' stands behind the command: bucketlake branch delete … --yes"),
        ("--limit 3 cat t", "'--limit' stands behind the command: bucketlake cat … --limit"),
        ("tag list t", "The list is had by 'bucketlake tags TABLE'."),
        ("branch ls t", "The list is had by 'bucketlake branches TABLE'."),
        ("config rm x", "Did you mean 'remove'?"),
        ("tag t x", "No such command 't'. There are: create, delete."),
        ("tabels", "No such command 'tabels'. Did you mean 'tables'?"),
        ("export t", "Missing argument 'FILE': Where to"),
        ("create t", "Missing option '--columns LIST': As SQL"),
    ],
)
def test_the_nearest_right_thing_is_told(run: Run, words: str, told: str) -> None:
    answer = run(*words.split())
    assert (answer.status, answer.out) == (2, "")
    said = answer.error["what"] if "--json" in words else answer.err
    assert told in said


def test_statements_are_told_as_statements(run: Run) -> None:
    assert """Did you mean '--execute "SELECT 1"'?""" in run("sql", "SELECT 1").err
    assert """Did you mean '--where "id > 3"'?""" in run("cat", "t", "id > 3").err


def test_help_says_what_may_be_repeated(run: Run) -> None:
    assert "May be given more than once." in " ".join(run("compact", "--help").out.split())
