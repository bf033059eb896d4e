"""What statements of other engines, and usual slips, are here: the remedy of an error about a statement nobody reads.

remedy(statement, place) -> text     by how it begins, by words that only others know, by what stands at the place,
                                     by the keyword that a misspelt one is near, by what its verb has to have
begun(statement) -> text             by how it begins alone
misspelt(statement) -> bool          whether its first word is a slip of the pen: Spark shows where
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from bucketlake.ops.system import registry

_CATALOG = "bucketlake.connect(warehouse, metastore=…) opens a catalog; its options are arguments"
_FUNCTION = "functions are kept by no catalog here: CREATE TEMPORARY FUNCTION, or spark.udf.register"
_UPSERT = "an INSERT INTO a table with a primary key is an upsert"
_SORTED = "CALL sys.compact(table => 't', order_strategy => 'zorder', order_by => 'a,b') sorts append tables"
_COPIED = "CALL sys.clone(database => 'db', table => 't', target_database => 'db', target_table => 'copy')"
_MADE_AGAIN = "CREATE TABLE t AS SELECT …, and INSERT OVERWRITE t SELECT … to refresh it"
_ALONE = "each statement is a commit of its own; CALL sys.rollback goes back to an older snapshot"
# How a statement begins -> what to say here.
_BEGINNINGS = {
    r"VACUUM\b": "CALL sys.expire_snapshots(table => 't'), CALL sys.remove_orphan_files(table => 't')",
    r"OPTIMIZE\b.*\bZORDER +BY\b": _SORTED,
    r"(OPTIMIZE|COMPACT)\b": "CALL sys.compact(table => 't')",
    r"RESTORE\b": "CALL sys.rollback('t', '1'), to a snapshot or a tag",
    r"MSCK\b": "partitions are what rows say: there is nothing to repair",
    r"LOAD\b": "COPY INTO, or INSERT INTO … SELECT * FROM parquet.`path`",
    r"(UPSERT|REPLACE +INTO)\b": _UPSERT,
    r"(START +TRANSACTION|BEGIN +(TRANSACTION|WORK)|COMMIT|ROLLBACK|SAVEPOINT)\b": _ALONE,
    r"BEGIN *;? *\Z": _ALONE,
    r"CREATE +(UNIQUE +)?INDEX\b": "indexes are options of a table: 'file-index.bloom-filter.columns' = 'a_column'",
    r"(CREATE( +OR +REPLACE)?|DROP|REFRESH|ALTER) +MATERIALIZED +VIEW\b": _MADE_AGAIN,
    r"SHOW +HISTORY\b": "SELECT * FROM `t$snapshots`",
    r"SHOW +CREATE +VIEW\b": "SHOW CREATE TABLE",
    r"SHOW +TABLE *\Z": "SHOW TABLES, or SHOW TABLE EXTENDED LIKE '*'",
    r"SHOW +TABLE +(?!EXTENDED\b|STATUS\b)": "DESCRIBE t, SHOW CREATE TABLE t, or SHOW TABLES",
    r"SHOW +CREATE +(?!TABLE\b|VIEW\b)": "SHOW CREATE TABLE t",
    r"EXPLAIN +(PLAN|ANALYZE)\b": "EXPLAIN SELECT …, or EXPLAIN FORMATTED SELECT …",
    r"SHOW +COLUMNS +(?!IN\b|FROM\b)": "SHOW COLUMNS IN t",
    r"CALL +(\w+\.)?system\.": "procedures of the lake are in sys: CALL sys.help() lists them",
    r"(GRANT|REVOKE|DENY)\b": "no catalog here keeps rights: the storage says who may read and write",
    r"SHOW +TABLE +STATUS\b": "SHOW TABLE EXTENDED LIKE '*'",
    r"SHOW +(INDEX|INDEXES|KEYS)\b": "SHOW TBLPROPERTIES names the primary key and the file indexes of a table",
    r"SHOW +PROCEDURES\b": "CALL sys.help() lists them",
    r"(CREATE|ALTER|DROP) +CATALOG\b": _CATALOG,
    r"CREATE +TEMPORARY +TABLE\b": "CREATE TEMPORARY VIEW v AS SELECT …, or … VIEW v USING csv OPTIONS (path '…')",
    r"(CREATE|ALTER) +FUNCTION\b": _FUNCTION,
    r"\\[a-z?]": "helpers with a backslash are the prompt's: SHOW TABLES, DESCRIBE t, SELECT * FROM `t$snapshots`",
    r"PRAGMA\b": "DESCRIBE, or SHOW TBLPROPERTIES",
    r"SELECT +TOP +\d": "LIMIT, at the end of the query",
    r"COPY +INTO\b(?!.*\bFILE_FORMAT\b)": "COPY INTO t FROM 'folder' FILE_FORMAT = (TYPE = CSV)",
}
# Words within it that only others know.
_WORDS = {
    r"\bON +(CONFLICT|DUPLICATE +KEY)\b": _UPSERT,
    r"\b(ARRAY|MAP) *\[ *[^\d\]]": "array(1, 2), map('a', 1)",
    r"\bRETURNING\b": "nothing is returned: SELECT it",
    r", *FROM\b": "leave out the comma before FROM",
    r"\bLIMIT +\d+ *, *\d": "LIMIT 10 OFFSET 20: how many, and behind how many",
}
# What stands at the place, as others have it -> what to say.
_HERE = {
    r"PARTITION +BY\b": "PARTITIONED BY (a_column)",
    r"((SHALLOW|DEEP) +)?CLONE\b": _COPIED,
    r"CLUSTERED +BY\b": "TBLPROPERTIES ('bucket' = '4', 'bucket-key' = 'a_column')",
    r"CLUSTER +BY\b": "TBLPROPERTIES ('clustering.columns' = 'a_column')",
    r"WRITE +\w+": _SORTED,
    r"(GENERATED|AUTO_INCREMENT|IDENTITY)\b": "leave it out: the query that writes gives the value",
    r"ENGINE *=": "leave it out: 'file.format' among the TBLPROPERTIES says what files are",
    r"SET +(OPTIONS|PROPERTIES)\b": "SET TBLPROPERTIES ('key' = 'value')",
    r"COMPACT\b": "CALL sys.compact(table => 't')",
    r"EXECUTE\b": "procedures are called: CALL sys.help() lists them",
    r"(CREATE|REPLACE|DROP) +BRANCH\b": "CALL sys.create_branch('t', 'b'), CALL sys.delete_branch('t', 'b')",
}
# What verbs have to have, where nothing nearer is known.
_WHOLE = {
    r"DELETE +(?!FROM\b)": "DELETE FROM t WHERE …",
    r"INSERT +(?!INTO\b|OVERWRITE\b)": "INSERT INTO t …, or INSERT OVERWRITE t …",
    r"TRUNCATE +(?!TABLE\b)": "TRUNCATE TABLE t",
    r"ANALYZE\b": "ANALYZE TABLE t COMPUTE STATISTICS",
    r"MERGE\b": "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
}
# What stands where Spark stumbled -> what to say; {} is the name around it.
_SIGNS = {
    "$": "put a name with characters other than letters, digits and _ in backticks: `{}`",
    "[": "names with blanks and signs stand in backticks: `a name`; places in arrays behind the array: a[0]",
    "@": "VERSION AS OF, or TIMESTAMP AS OF, behind the name",
    "{": "give what stands in braces by its name: lake.sql('… {df}', df=frame)",
    "/*": "/*+ OPTIONS('key' = 'value') */ behind the table's name",
    "/": "paths stand in quotes, names of tables with signs in backticks",
    "-": "put a name with characters other than letters, digits and _ in backticks: `{}`",
    '"': "names stand in backticks: `a name`",
    "'": "names stand in backticks, texts in quotes; rows of a file are csv.`path`, parquet.`path`, …",
}
_SHOWN = re.compile(r"SHOW +(\w+)", re.IGNORECASE)
_STATEMENTS = ("partitions", "tags")  # that SHOW has
_listed = re.compile(r"\w+").findall
# What statements begin with, what some of these words have behind them, and what clauses begin with: a word that is
# none of them, where a statement cannot be read, is meant to be the nearest.
_VERBS = _listed(
    "ALTER ANALYZE CACHE CALL CLEAR COMMENT COPY CREATE DELETE DESC DESCRIBE DROP EXECUTE EXPLAIN FROM INSERT LIST"
    " MERGE REFRESH REPLACE RESET SELECT SET SHOW TABLE TRUNCATE UNCACHE UPDATE USE VALUES WITH"
)
_MADE = ["DATABASE", "FUNCTION", "SCHEMA", "TABLE", "TEMPORARY", "VIEW"]
_BEHIND = {
    "SHOW": _listed(
        "ALL CATALOGS COLUMNS CREATE CURRENT DATABASES FUNCTIONS NAMESPACES PARTITIONS SCHEMAS SYSTEM TABLE TABLES"
        " TAGS TBLPROPERTIES USER VIEWS"
    ),
    "CREATE": [*_MADE, "EXTERNAL", "GLOBAL", "OR"],
    "DROP": _MADE,
    "ALTER": _MADE,
    "INSERT": ["INTO", "OVERWRITE"],
}
_CLAUSES = _listed(
    "AS BETWEEN CROSS DISTINCT EXISTS FROM FULL GROUP HAVING INNER INTERSECT INTO JOIN LATERAL LEFT LIMIT MATCHED"
    " OFFSET ORDER OUTER OVERWRITE PARTITION PARTITIONED RIGHT SELECT TABLE TBLPROPERTIES THEN TIMESTAMP UNION USING"
    " VALUES VERSION WHEN WHERE"
)
_KEYWORDS = {*_VERBS, *_CLAUSES, *(word for words in _BEHIND.values() for word in words), "INT"}
_NAMED = _listed("DATABASE EXISTS FROM INTO JOIN OVERWRITE SCHEMA TABLE UPDATE USE USING VIEW")  # names follow
_NEAR = 0.75  # FORM for FROM


def remedy(statement: str, place: int | None = None) -> str | None:
    """What to do instead of a statement that cannot be read, at `place` where that is known; None: nothing is known."""
    text = " ".join(statement.split())
    told = _first(_BEGINNINGS, text, "") or _first(_WORDS, text, ".*?")
    shown = _SHOWN.match(text)
    if told is None and shown is not None:
        name = shown[1].lower()
        told = f"SELECT * FROM `t${name}`" if name in registry.NAMES and name not in _STATEMENTS else None
    if told is None and place is not None:
        told = _first(_HERE, " ".join(statement[place:].split()), "") or _of_sign(statement, place)
    return told or _meant(statement, place) or _first(_WHOLE, text, "")


def begun(statement: str) -> str | None:
    """What to do instead of a statement of others that can be read here, by how it begins; None: nothing is known."""
    return _first(_BEGINNINGS, " ".join(statement.split()), "")


def expected(written: Sequence[str], words: Sequence[str]) -> str | None:
    """What to do instead where one of some keywords has to stand: the one that the word there, or else the one before
    it (then read as a name), is meant to be; None where neither is like one."""
    for word in map(str.upper, written):
        near = get_close_matches(word, words, 1) if word not in _KEYWORDS else []
        if near:
            return f"did you mean {near[0]}?"
    return None


def misspelt(statement: str) -> bool:
    """Whether a statement begins with what is meant to be another word, and is none that others know."""
    word = re.match(r"\s*(\w*)", statement)
    return (
        _first(_BEGINNINGS, " ".join(statement.split()), "") is None
        and _nearest(word[1] if word else "", _VERBS) is not None
    )


def _first(told: dict[str, str], text: str, before: str) -> str | None:
    return next((one for form, one in told.items() if re.match(before + form, text, re.IGNORECASE)), None)


def _meant(statement: str, place: int | None) -> str | None:
    """The keyword that a misspelt one is meant to be: the first or second word, else one at the place or before it."""
    words = [found[0].upper() for found in re.finditer(r"\w+", statement)][:2]
    asked = [(words[0], _VERBS)] if words else []
    asked += [(word, _BEHIND[verb]) for verb, word in [words] if verb in _BEHIND] if len(words) > 1 else []
    if place is not None:
        around = re.match(r"\w*", statement[place:]), re.search(r"(?<!`)\b(\w+)\s*\Z", statement[:place])
        here, before = (found[0].strip().upper() if found is not None else "" for found in around)
        dotted = statement[place : place + 1] == "."  # what is before it is a name
        named = around[1] is not None and (dotted or _is_name(statement[: around[1].start()]))
        stand = [here] if named else [here, before]
        asked += [(word, _CLAUSES) for word in stand if word not in _KEYWORDS]
    near = next((found for word, known in asked if (found := _nearest(word, known))), None)
    return None if near is None else f"did you mean {near}?"


def _is_name(before: str) -> bool:
    """Whether what follows a text is a name, however near to a keyword it may be."""
    word = re.search(r"(\w+|\.)\s*\Z", before)
    return word is not None and (word[1] == "." or word[1].upper() in _NAMED)


def _nearest(word: str, known: list[str]) -> str | None:
    """The keyword that a word which is none is near to."""
    near = [] if word.upper() in known else get_close_matches(word.upper(), known, 1, _NEAR)
    return near[0] if near else None


def _of_sign(statement: str, place: int) -> str | None:
    told = _SIGNS.get(statement[place : place + 2]) or _SIGNS.get(statement[place : place + 1])
    if told is None or "{}" not in told:
        return told
    before, after = re.search(r"\w*\Z", statement[:place]), re.match(r"[\w$-]*", statement[place:])
    name = (before[0] if before else "") + (after[0] if after else "")
    return told.format(name) if before and before[0] else None


def told_place(text: str, place: int) -> dict[str, object]:
    """A place of a text as an error's details."""
    line, start = text.count("\n", 0, place) + 1, text.rfind("\n", 0, place) + 1
    near = text[place : place + 40].split("\n")[0] or "end of statement"
    return {"line": line, "column": place - start + 1, "near": near}
