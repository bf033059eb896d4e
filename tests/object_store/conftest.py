"""A moto S3 server as a process on the loopback interface, and warehouses in its buckets."""

from __future__ import annotations

import importlib.util
import json
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from tests.object_store.process import served

import bucketlake
from bucketlake import Catalog

SECRET = "do-not-show-this"


class S3:
    """The server, as tests look at it."""

    def __init__(self, endpoint: str) -> None:
        import boto3

        self.endpoint = endpoint
        self.options = {
            "s3.endpoint": endpoint,
            "s3.access-key": "somebody",
            "s3.secret-key": SECRET,
            "s3.path.style.access": "true",
        }
        self.client = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1"
        )
        for bucket in ("lake", "careless"):
            self.client.create_bucket(Bucket=bucket)

    def keys(self, place: str) -> set[str]:
        """The keys of all objects below a path, without the path."""
        bucket, _, prefix = place.removeprefix("s3://").partition("/")
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix + "/")
        return {item["Key"][len(prefix) + 1 :] for page in pages for item in page.get("Contents", [])}

    def fail(self, *faults: tuple[str, str, int]) -> None:
        """From now on: (part of the path, "lose" or "refuse", how often). The log of puts starts anew."""
        given = [{"part": part, "fault": fault, "times": times} for part, fault, times in faults]
        request = urllib.request.Request(f"{self.endpoint}/-/control", json.dumps(given).encode(), method="POST")
        urllib.request.urlopen(request).read()

    def puts(self, part: str) -> list[tuple[str, str, int]]:
        """Path, If-None-Match and status of the puts since `fail` whose path holds a part."""
        with urllib.request.urlopen(f"{self.endpoint}/-/log") as answer:
            return [tuple(put) for put in json.loads(answer.read()) if part in put[0]]

    def looks(self, place: str) -> list[str]:
        """What was asked for since `fail`, by GET and HEAD, below a path, without the path."""
        with urllib.request.urlopen(f"{self.endpoint}/-/looks") as answer:
            found: list[str] = json.loads(answer.read())
        prefix = "/" + place.removeprefix("s3://") + "/"
        return [look.removeprefix(prefix) if look.startswith(prefix) else look for look in found]

    def deletes(self) -> list[str]:
        """The methods of the requests that deleted something since `fail`: POST for lists, DELETE for single objects."""
        with urllib.request.urlopen(f"{self.endpoint}/-/deletes") as answer:
            return [method for method, _ in json.loads(answer.read())]


@pytest.fixture(scope="session")
def server() -> Iterator[S3]:
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("boto3") is None:
        pytest.skip("moto[server] is not installed")
    with served() as endpoint:
        yield S3(endpoint)


@pytest.fixture
def s3(server: S3) -> S3:
    server.fail()
    return server


@pytest.fixture
def warehouse(s3: S3) -> str:
    return f"s3://lake/{uuid.uuid4().hex}/wh"


@pytest.fixture
def catalog(s3: S3, warehouse: str) -> Catalog:
    return bucketlake.open(warehouse, s3.options)


def rows(table: Any, **how: Any) -> list[tuple[Any, ...]]:
    """The rows of a table, sorted."""
    return sorted(tuple(row.values()) for row in table.to_arrow(**how).to_pylist())
