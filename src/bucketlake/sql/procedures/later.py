"""Procedures of Paimon that are known by name and not built, and why."""

from __future__ import annotations

from bucketlake.sql.procedures.registry import TABLE, Argument, Procedure

_FUNCTIONS = "functions are kept by no catalog here; CREATE TEMPORARY FUNCTION makes one for the session"
_INDEXES = "full-text indexes are not supported"
_PRIVILEGES = "users and privileges in files are not supported: who may do what, the storage says"
_FUNCTION = Argument("function", "the function", required=True)


def _named(*names: str, required: int = 0) -> tuple[Argument, ...]:
    """Arguments of procedures that nobody can call: names alone, the first so many needed."""
    return tuple(Argument(name, "", required=place < required) for place, name in enumerate(names))


def _later(name: str, doc: str, arguments: tuple[Argument, ...], why: str, engines: str = "Spark, Flink") -> Procedure:
    return Procedure(name, doc, arguments, missing=why, engines=engines)


PROCEDURES = (
    _later(
        "alter_function",
        "Changes a function.",
        (_FUNCTION, Argument("change", "", required=True)),
        _FUNCTIONS,
    ),
    _later(
        "create_function",
        "Makes a function.",
        (
            _FUNCTION,
            *_named("inputParams", "returnParams", required=2),
            Argument("deterministic", "", "boolean"),
            *_named("comment", "options"),
        ),
        _FUNCTIONS,
    ),
    _later("create_privileged_user", "Makes a user.", _named("username", "password"), _PRIVILEGES, "Flink"),
    _later("drop_function", "Drops a function.", (_FUNCTION,), _FUNCTIONS),
    _later("drop_privileged_user", "Drops a user.", _named("username"), _PRIVILEGES, "Flink"),
    _later("full_text_search", "Searches texts.", _named("table"), _INDEXES, "Flink"),
    _later(
        "grant_privilege_to_user",
        "Grants a privilege.",
        _named("username", "privilege", "database", "table"),
        _PRIVILEGES,
        "Flink",
    ),
    _later("init_file_based_privilege", "Begins to keep users.", _named("rootPassword"), _PRIVILEGES, "Flink"),
    _later("query_service", "Serves lookups.", _named("table"), "it is a service of Flink's", "Flink"),
    _later(
        "refresh_object_table",
        "Lists the objects of an object table anew.",
        (TABLE,),
        "tables of type object-table are not supported",
        "Spark, Flink of earlier releases",
    ),
    _later(
        "revoke_privilege_from_user",
        "Revokes a privilege.",
        _named("username", "privilege", "database", "table"),
        _PRIVILEGES,
        "Flink",
    ),
    _later("vector_search", "Searches vectors.", _named("table"), "vector indexes are not supported", "Flink"),
)
