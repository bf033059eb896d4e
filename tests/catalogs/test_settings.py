"""Which database the options of a SQL catalog mean; what is not honoured is refused by name, and nothing is shown."""

from __future__ import annotations

from typing import Any

import pytest

import bucketlake
from bucketlake.catalogs.sql_settings import settings_of
from bucketlake.errors import InvalidError, UnsupportedError


@pytest.mark.parametrize(
    ("options", "kind", "given"),
    [
        ({"uri": "jdbc:sqlite:/a/b.db"}, "sqlite", {"database": "/a/b.db"}),
        ({"uri": "sqlite:///a/b.db"}, "sqlite", {"database": "/a/b.db"}),
        ({"uri": "jdbc:sqlite:file:/a/b.db?busy_timeout=2000"}, "sqlite", {"database": "/a/b.db", "timeout": 2.0}),
        (
            {"uri": "jdbc:postgresql://h:5433/lake?user=me&password=p%26w&ssl=true&currentSchema=s"},
            "postgresql",
            {
                "host": "h",
                "port": 5433,
                "dbname": "lake",
                "user": "me",
                "password": "p&w",
                "sslmode": "verify-full",
                "options": "-c search_path=s",
            },
        ),
        (
            {"uri": "postgresql://me:pw@[::1]/lake", "jdbc.user": "other", "jdbc.sslmode": "require"},
            "postgresql",
            {"host": "::1", "user": "me", "password": "pw", "sslmode": "require"},
        ),
        (
            {
                "uri": "jdbc:mysql://h/lake?useSSL=true&serverTimezone=UTC&useUnicode=true",
                "jdbc.user": "u",
                "jdbc.password": "p4ss-w",
            },
            "mysql",
            {
                "host": "h",
                "database": "lake",
                "user": "u",
                "password": "p4ss-w",
                "ssl": {"check_hostname": False, "verify_mode": "none"},
            },
        ),
        (
            {"uri": "jdbc:mariadb://h:3307/lake?sslMode=verify-full&connectTimeout=5000"},
            "mysql",
            {"port": 3307, "connect_timeout": 5, "ssl": {"check_hostname": True, "verify_mode": "required"}},
        ),
    ],
)
def test_how_a_database_is_reached(options: dict[str, str], kind: str, given: dict[str, Any]) -> None:
    found = settings_of(options)
    assert (found.kind, {key: found.given.get(key) for key in given}) == (kind, given)
    secret = found.given.get("password")
    assert secret is None or str(secret) not in repr(found) + found.shown


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, InvalidError, "needs the option 'uri'"),
        ({"uri": "jdbc:oracle:thin:@h"}, UnsupportedError, "of this kind"),
        ({"uri": "jdbc:sqlite::memory:"}, InvalidError, "in memory"),
        ({"uri": "jdbc:sqlite:"}, InvalidError, "in memory"),
        ({"uri": "jdbc:postgresql://h:x/db"}, InvalidError, "not the URL"),
        ({"uri": "jdbc:postgresql://h/db?kerberosServerName=x"}, UnsupportedError, "jdbc.kerberosservername"),
        ({"uri": "jdbc:mysql://h/db?trustCertificateKeyStoreUrl=x"}, UnsupportedError, "trustcertificatekeystoreurl"),
        ({"uri": "jdbc:mysql://h/db?sslMode=maybe"}, InvalidError, "mode of TLS"),
        # Numbers that are none: ValueErrors of Python's, and SQLite waited for 30 s without a word.
        ({"uri": "jdbc:sqlite:c.db", "jdbc.busy_timeout": "2 s"}, InvalidError, "whole number .*jdbc.busy_timeout"),
        ({"uri": "jdbc:postgresql:///db", "jdbc.port": "x"}, InvalidError, "whole number .*jdbc.port"),
        ({"uri": "jdbc:postgresql://h/db?connectTimeout=5s"}, InvalidError, "whole number .*jdbc.connecttimeout"),
        ({"uri": "jdbc:mysql://h/db?connectTimeout=5s"}, InvalidError, "whole number .*jdbc.connectTimeout"),
        ({"uri": "jdbc:mysql://h/db?read_timeout=-1"}, InvalidError, "whole number .*jdbc.read_timeout"),
    ],
)
def test_what_is_refused(options: dict[str, str], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        settings_of(options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metastore": "hive", "uri": "thrift://h:9083"}, "metastore"),
        ({"metastore": "jdbc", "uri": "jdbc:sqlite:c.db", "lock.type": "zookeeper"}, "lock.type"),
        ({"metastore": "rest", "uri": "https://h", "lock.enabled": "true"}, "lock.enabled"),
        ({"metastore": "jdbc", "uri": "jdbc:sqlite:c.db", "sync-all-properties": "maybe"}, "sync-all-properties"),
        ({"metastore": "rest", "uri": "https://h", "token.provider": "dlf"}, "leave it out, or set it to bear"),
    ],
)
def test_options_of_other_metastores(options: dict[str, str], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words) as caught:
        bucketlake.open("warehouse", options)
    assert caught.value.remedy
    assert "***" not in str(caught.value)
