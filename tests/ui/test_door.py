"""Who is let in, what may be asked, and that nothing is changed without leave."""

from __future__ import annotations

import json
import re
import shlex
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.ui.asgi import HOST, request

from bucketlake.ui import server
from bucketlake.ui.guard import Access
from bucketlake.ui.look import ANSWERS
from bucketlake.ui.rows import text_of

STATIC = Path(server.__file__).parent / "static"
ORDERS = {"database": "shop", "table": "orders"}


class Page:
    """An application and what opens it."""

    def __init__(self, shop: Any, **limits: Any) -> None:
        self.access = Access.of("127.0.0.1", 8765)
        self.app = server.application(shop, self.access, server.Limits(**limits))
        self.cookie = {"cookie": f"{self.access.cookie}={self.access.session}"}

    def get(self, path: str, **headers: str) -> Any:
        return request(self.app, path, {**self.cookie, **headers})

    def ask(self, question: str, **given: Any) -> Any:
        return self.get(f"/api/{question}?{urlencode(given)}")

    def post(self, path: str, given: Any, **headers: str) -> Any:
        usual = {"origin": f"http://{HOST}", "x-csrf-token": self.access.csrf, "content-type": "application/json"}
        body = given if isinstance(given, bytes) else json.dumps(given).encode()
        return request(self.app, path, {**self.cookie, **usual, **headers}, "POST", body)


@pytest.fixture(scope="module")
def page(shop: Any) -> Page:
    return Page(shop)


@pytest.fixture(scope="module")
def maintained(shop: Any) -> Page:
    return Page(shop, allow_maintenance=True)


# ---------------------------------------------------------------------------------------------- the door


def test_the_token_gives_a_cookie_that_opens_the_page(page: Page) -> None:
    assert request(page.app, "/").status == 401
    assert request(page.app, "/api/databases").status == 401
    assert request(page.app, "/static/main.js").status == 401
    for wrong in ("", "x", page.access.session, page.access.token[:-1], "é" * 40):
        assert request(page.app, f"/?{urlencode({'token': wrong})}").status == 401
    entered = request(page.app, f"/?token={page.access.token}")
    cookie = entered.headers["set-cookie"]
    assert entered.status == 200
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert page.access.token not in entered.body.decode() and page.access.token not in cookie
    opened = request(page.app, "/", {"cookie": cookie.partition(";")[0]})
    assert opened.status == 200 and b"main.js" in opened.body


@pytest.mark.parametrize(
    "other", ['prefs={"a":1,"b":[2]}', 'x="never closed', "two words=1", "=", "é=1", "u=@,", ";;", "{cookie}=old"]
)
def test_cookies_of_other_servers_of_the_machine_lock_nobody_out(page: Page, other: str) -> None:
    own = page.cookie["cookie"]
    stranger = other.replace("{cookie}", page.access.cookie)
    for both in (f"{stranger}; {own}", f"{own}; {stranger}"):
        assert request(page.app, "/api/session", {"cookie": both}).status == 200
    assert request(page.app, "/api/session", {"cookie": stranger}).status == 401


def test_a_page_that_only_looks_says_how_to_start_one_that_does_more(page: Page, shop: Any) -> None:
    told = page.get("/api/session").json()
    assert told["maintenance"] is False
    assert told["to_maintain"] == f"bucketlake ui -w {shlex.quote(str(shop.warehouse))} --allow-maintenance"


def test_a_request_of_many_parameters_is_answered_like_others(page: Page) -> None:
    many = "&".join(f"a{n}=1" for n in range(300))
    assert request(page.app, f"/?{many}").status == 401
    assert page.get(f"/?{many}").status == 200
    assert page.get("/api/session/").status == 404  # a redirect would name the host


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:8765", "127.0.0.1:8765.evil", ""]
)
def test_a_name_that_is_not_the_servers_is_refused(page: Page, host: str) -> None:
    assert page.get("/", host=host).status == 403
    assert page.get("/api/databases", host=host).status == 403


@pytest.mark.parametrize("name", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765"])
def test_the_servers_own_names_are_good(page: Page, name: str) -> None:
    assert page.get("/api/databases", host=name).status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", f"http://{HOST}.evil", "file://"]
)
def test_another_page_may_not_ask(page: Page, maintained: Page, origin: str) -> None:
    assert page.get("/api/databases", origin=origin).status == 403
    assert maintained.post("/api/start", {"action": "compact", **ORDERS}, origin=origin).status == 403
    assert page.get("/api/databases", **{"sec-fetch-site": "cross-site"}).status == 403


def test_a_change_needs_leave_the_token_of_the_page_and_its_own_origin(page: Page, maintained: Page) -> None:
    asked = {"action": "tag", "name": "never", **ORDERS}
    refused = page.post("/api/start", asked)
    assert (refused.status, refused.json()["error"]["kind"]) == (403, "read-only")
    assert maintained.post("/api/start", asked, **{"x-csrf-token": "wrong"}).status == 403
    assert maintained.post("/api/start", asked, **{"content-type": "text/plain"}).status == 403
    bare = {**maintained.cookie, "x-csrf-token": maintained.access.csrf, "content-type": "application/json"}
    assert request(maintained.app, "/api/start", bare, "POST", json.dumps(asked).encode()).status == 403
    assert maintained.get("/api/start").status == 405
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
        assert request(page.app, "/api/databases", page.cookie, method).status == 405
    for body in (b"{", b"[]", b'{"action": 1}', b"[" * 100_000, b'{"a": "' + b"x" * 100_000 + b'"}'):
        assert maintained.post("/api/start", body).status in (400, 413)
    assert maintained.post("/api/start", {"action": "drop", **ORDERS}).status == 400


def test_every_answer_forbids_what_is_not_the_servers(page: Page) -> None:
    answers = [
        page.get("/"),
        page.ask("databases"),
        page.get("/static/nothing"),
        request(page.app, "/"),
        page.get("/", host="x"),
    ]
    for one in answers:
        policy = one.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert one.headers["x-content-type-options"] == "nosniff"
        assert one.headers["referrer-policy"] == "no-referrer"
        assert one.headers["cache-control"] in ("no-store", "no-cache")


@pytest.mark.parametrize(
    "name", ["../server.py", "..%2fserver.py", "page.css/../../server.py", "server.py", "%00", "."]
)
def test_only_the_files_of_the_page_are_served(page: Page, name: str) -> None:
    assert page.get(f"/static/{name}").status == 404


def test_the_page_names_no_other_server_and_makes_elements_from_texts_alone() -> None:
    for path in STATIC.iterdir():
        text = path.read_text()
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == [], path.name
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\.style\s*=|style=\"", text
        )
    assert len(STATIC.joinpath("index.html").read_text()) < 4_000


# ---------------------------------------------------------------------------------------------- questions


@pytest.mark.parametrize("question", sorted(set(ANSWERS) - {"difference", "levels"}))
@pytest.mark.parametrize("table", ["shop.orders", "web.clicks", "web.empty", "shop.customers", "default.x<i>y"])
def test_every_question_has_an_answer_for_every_table(page: Page, question: str, table: str) -> None:
    database, _, name = table.partition(".")
    found = page.ask(question, database=database, table=name)
    assert found.status == 200, found.body
    assert "hunter2" not in found.body.decode()


def test_levels_and_differences_are_of_what_is_asked(page: Page) -> None:
    part = page.ask("heat", **ORDERS).json()["partitions"][0]
    found = page.ask("levels", **ORDERS, partition=part["key"], bucket=1).json()
    assert found["partition"] == part["text"] and found["files"]
    same = page.ask("difference", **ORDERS, before=3, after=3).json()
    assert same["rows"] is None and same["files"]["added_files"] == 0
    other = page.ask("difference", **ORDERS, before=4, after=2, limit=5).json()
    assert (other["low"], other["high"], len(other["rows"]["rows"]), other["rows"]["more"]) == (2, 4, 5, True)
    assert other["rows"]["columns"][0] == "rowkind"


def test_rows_travel(page: Page, shop: Any) -> None:
    found = page.ask("sample", **ORDERS, snapshot=1, limit=500).json()
    assert found["snapshot"] == 1
    assert len(found["rows"]) == shop.table("shop.orders", {"scan.snapshot-id": "1"}).to_arrow(limit=500).num_rows
    assert "voucher" not in found["columns"]  # which came later


@pytest.mark.parametrize(
    ("question", "given", "status"),
    [
        ("heat", {"database": "shop", "table": "nothing"}, 404),
        ("heat", {"database": "nothing", "table": "orders"}, 404),
        ("heat", {"database": "shop"}, 400),
        ("heat", {"database": "../..", "table": "etc"}, 400),
        ("heat", {"database": "shop", "table": "orders$files"}, 400),
        ("heat", {"database": "shop", "table": "a`b"}, 400),
        ("heat", {"database": "shop", "table": "orders", "branch": "../x"}, 400),
        ("heat", {**ORDERS, "snapshot": "999"}, 404),
        ("heat", {**ORDERS, "snapshot": "1; DROP"}, 400),
        ("heat", {**ORDERS, "snapshot": "9" * 30}, 400),
        ("timeline", {**ORDERS, "limit": "100000"}, 400),
        ("levels", {**ORDERS, "partition": "zz", "bucket": "0"}, 400),
        ("files", {**ORDERS, "sort": "colour"}, 400),
        ("sample", {**ORDERS, "limit": "-1"}, 400),
    ],
)
def test_what_cannot_be_asked_is_refused_with_reasons(
    page: Page, question: str, given: dict[str, str], status: int
) -> None:
    found = page.ask(question, **given)
    assert found.status == status, found.body
    assert found.json()["error"]["message"]


def test_answers_are_bounded_in_time_and_size(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Page(shop, bytes=200).ask("settings", **ORDERS)
    assert (small.status, small.json()["error"]["kind"]) == (507, "large")
    ended = threading.Event()
    monkeypatch.setitem(ANSWERS, "advice", lambda catalog, query: ended.wait(30) and {})
    slow = Page(shop, seconds=0.05).ask("advice", **ORDERS)
    ended.set()
    assert (slow.status, slow.json()["error"]["kind"]) == (504, "slow")
    monkeypatch.setitem(ANSWERS, "advice", lambda catalog, query: {"x": float("nan")})
    assert Page(shop).ask("advice", **ORDERS).status == 500
    monkeypatch.setitem(ANSWERS, "advice", lambda catalog, query: 1 // 0)
    broken = Page(shop).ask("advice", **ORDERS)
    assert (broken.status, broken.json()["error"]["message"][:17]) == (500, "ZeroDivisionError")
    assert page_is_too_long(shop) == 414


def page_is_too_long(shop: Any) -> int:
    return int(Page(shop).get("/api/heat?" + "x" * 9_000).status)


def test_values_are_shown_as_texts_of_a_bounded_length() -> None:
    nested = [("<b>", [1, None, b"\xff"]), ("k", [])]
    values = [None, True, b"\x00\xff", b"x" * 1_000, nested, {"a": None}, list(range(10_000)), "y" * 10_000]
    shown = [text_of(value) for value in values]
    assert shown[:3] == [None, "true", "0x00ff"]
    assert shown[3].endswith("… (1,000 bytes)")
    assert shown[4:6] == ['{"<b>": [1, null, "0xff"], "k": []}', '{"a": null}']
    assert all(len(text) <= 200 for text in shown if text)


# ---------------------------------------------------------------------------------------------- jobs


def settled(page: Page, number: int) -> Any:
    done = threading.Event()
    for _ in range(2_000):
        job = next(one for one in page.get("/api/jobs").json()["jobs"] if one["number"] == number)
        if job["state"] not in ("waiting", "running"):
            return job
        done.wait(0.01)
    raise AssertionError("the job does not end")


def test_jobs_tag_compact_and_expire_and_say_what_they_did(maintained: Page, shop: Any) -> None:
    clicks = {"database": "web", "table": "clicks"}
    tagged = settled(
        maintained, maintained.post("/api/start", {"action": "tag", "name": "kept", **clicks}).json()["job"]
    )
    assert tagged["state"] == "done" and "kept" in shop.table("web.clicks").tags()
    again = settled(
        maintained, maintained.post("/api/start", {"action": "tag", "name": "kept", **clicks}).json()["job"]
    )
    assert again["state"] == "failed" and "kept" in again["message"]
    empty = {"database": "web", "table": "empty"}
    done = settled(
        maintained, maintained.post("/api/start", {"action": "compact", "full": "true", **empty}).json()["job"]
    )
    assert (done["state"], done["message"]) == ("done", "There was nothing to compact.")
    people = {"database": "shop", "table": "customers"}
    gone = settled(
        maintained, maintained.post("/api/start", {"action": "expire", "retain_max": "1", **people}).json()["job"]
    )
    assert gone["state"] == "done" and len(shop.table("shop.customers").snapshots()) == 1
    bad = settled(
        maintained, maintained.post("/api/start", {"action": "expire", "retain_max": "0", **people}).json()["job"]
    )
    assert bad["state"] == "failed"
    assert maintained.post("/api/stop", {"job": "999"}).status == 404
