"""The page in a browser: every figure, both themes, three widths, by keyboard, with hostile names and damaged files.

`make pictures` makes the documents' pictures of what these tests look at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.report.tables import HOSTILE
from tests.ui.browser import ARGUMENTS, VISIT, Window, chromium, served

import bucketlake
from bucketlake.report import frames

playwright = pytest.importorskip("playwright.sync_api", reason="PEER MISSING: playwright")

ROOMS = {
    "history": {"timeline": "drawn", "amplification": "drawn", "activity": "drawn"},
    "layout": {"heat": "drawn", "levels": "drawn", "sizes": "drawn", "files": "drawn"},
    "rows": {"sample": "drawn", "difference": "drawn"},
    "schema": {"columns": "drawn", "evolution": "drawn", "options": "drawn"},
    "maintenance": {"advice": "drawn", "activity": "drawn", "maintenance": "drawn"},
}
WIDTHS = (360, 768, 1280)
NAMELESS = """() => [...document.querySelectorAll('button, a[href], input, select, [tabindex="0"], [role=img], [role=slider], [role=application]')]
  .filter(one => one.checkVisibility() && !(one.getAttribute('aria-label') || one.getAttribute('aria-labelledby') || one.innerText?.trim() || one.textContent.trim() || one.labels?.length))
  .map(one => one.outerHTML.slice(0, 120))"""


CUT = """async () => {
  const { text } = await import('/static/canvas.js');
  const context = { measureText: (shown) => ({ width: shown.length }), fillText: (shown) => told.push(shown) };
  const told = [];
  for (const align of ['left', 'right']) text(context, 'day=2026-03-01', 0, 0, align === 'left' ? 5 : 4, '', align);
  return told;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = chromium()
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=program, args=list(ARGUMENTS), headless=True)
        yield found
        found.close()


@pytest.fixture(scope="module")
def server(shop: Any) -> Iterator[Any]:
    with served(shop, allow_maintenance=True) as running:
        yield running


@pytest.fixture(scope="module")
def looking(browser: Any, server: Any) -> Iterator[Window]:
    found = Window(browser, server)
    yield found
    found.close()


@pytest.fixture
def window(looking: Window) -> Iterator[Window]:
    """The window, as it is when it has just been opened; nothing may go wrong in it."""
    looking.anew()
    yield looking
    assert looking.wrong == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_figure_is_drawn_in_both_themes_and_at_three_widths(window: Window, room: str) -> None:
    page = window.room("shop/orders", room)
    assert window.states() == ROOMS[room]
    assert page.evaluate(NAMELESS) == []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for width in WIDTHS:
            window.resize(width)
        window.takes_theme(theme)
    for name in ROOMS[room]:
        page.locator(f"[data-panel={name}]").wait_for()
        if name != "maintenance":
            about = page.locator(f"[data-panel={name}] details.about")
            about.locator("summary").click()
            assert about.locator("dd").count() == 3
    assert window.states() == ROOMS[room]  # nothing was lost on the way


def test_the_warehouse_shows_its_tables_and_finds_them(window: Window) -> None:
    page = window.page
    page.wait_for_function("() => document.querySelectorAll('.card').length === 5")
    page.wait_for_function(
        "() => ![...document.querySelectorAll('.small-figures')].some(one => one.textContent === '…')"
    )
    cards = {card.split("\n")[0]: card for card in page.locator(".card").all_inner_texts()}
    assert "rows" in cards["orders"] and "empty" in cards["empty"]
    window.picture("warehouse")
    page.get_by_role("searchbox", name="Find a table").fill("cli")
    assert page.locator("#tree a").all_inner_texts() == ["clicks"]
    page.locator("#tree a").click()
    page.wait_for_selector("h1 >> text=clicks")
    assert page.title() == "web.clicks · History · Bucketlake"


def test_on_a_narrow_window_the_tables_are_behind_a_button(window: Window) -> None:
    page = window.page
    page.set_viewport_size({"width": 360, "height": 800})
    assert not page.locator("#tree").is_visible()
    page.get_by_role("button", name="Tables").click()
    page.locator("#tree").get_by_role("link", name="orders").click()
    page.wait_for_selector(".figures")
    assert not page.locator("#tree").is_visible()
    zoom = [page.get_by_role("button", name=name, exact=True) for name in ("Zoom out", "Zoom in", "Newest")]
    for width in range(320, 560, 20):  # in one line, wherever the legend breaks
        page.set_viewport_size({"width": width, "height": 800})
        assert len({box["y"] for button in zoom if (box := button.bounding_box())}) == 1, width
    page.get_by_role("button", name="Tables").click()
    page.keyboard.press("Escape")
    assert not page.locator("#tree").is_visible()


def test_the_time_line_is_walked_by_keyboard_and_takes_the_other_figures_along(window: Window, shop: Any) -> None:
    newest = shop.table("shop.orders").latest_snapshot().id
    page = window.room("shop/orders", "history")
    line = page.get_by_role("slider", name="Snapshots")
    assert line.get_attribute("aria-valuenow") == str(newest)
    assert "before sale" in page.locator("[data-panel=timeline]").inner_text()
    assert "mail service" in page.locator("[data-panel=timeline]").inner_text()
    window.picture("history")
    line.focus()
    for key, number in (("ArrowLeft", newest - 1), ("Home", 1), ("ArrowRight", 2), ("End", newest)):
        page.keyboard.press(key)
        assert line.get_attribute("aria-valuenow") == str(number)
    page.keyboard.press("+")
    page.keyboard.press("-")
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.wait_for_selector(".travel >> text=snapshot 1")
    line = page.get_by_role("slider", name="Snapshots")
    assert line.get_attribute("aria-valuenow") == "1"
    page.get_by_role("link", name="before sale").click()
    page.wait_for_selector(".travel >> text=snapshot 2")
    page.get_by_role("button", name="Back to the newest").first.click()
    page.wait_for_function("() => !document.querySelector('.travel').textContent")


def test_a_branch_is_a_place_of_its_own(window: Window) -> None:
    page = window.room("shop/orders", "history")
    page.get_by_role("link", name="what if").click()
    page.wait_for_selector("h1 .branch >> text=what if")
    window.settle()
    assert page.locator("[data-panel=timeline] .details").inner_text().startswith("Snapshot")
    page.get_by_role("link", name="To the main branch").click()
    page.wait_for_function("() => !document.querySelector('h1 .branch')")


def test_the_heat_map_leads_to_the_files_of_a_bucket(window: Window, shop: Any) -> None:
    page = window.room("shop/orders", "layout")
    heat = shop.table("shop.orders").report.heat()
    map_, details = page.locator("[data-figure=heat]"), page.locator("[data-panel=heat] .details")
    map_.focus()
    largest, first = max((cell.bytes, part.text, cell.bucket) for part in heat.partitions for cell in part.cells)[1:]
    assert largest in details.inner_text() and f"bucket {first} of" in details.inner_text()  # where most bytes are
    for key in ("ArrowDown", "Home", "ArrowRight"):
        page.keyboard.press(key)
    row = [part.text for part in heat.partitions].index(largest) + 1
    assert heat.partitions[row].text in details.inner_text()
    assert f"bucket 1 of {heat.partitions[row].buckets}" in details.inner_text()
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-panel=levels] .caption >> text=bucket 1")
    page.wait_for_function("() => document.activeElement.dataset.figure === 'levels'")
    name = page.locator("[data-panel=levels] .details strong")
    first = name.inner_text()
    page.keyboard.press("ArrowDown")
    assert name.inner_text() != first
    for measure in ("rows", "files", "runs", "skew"):
        page.locator("[data-panel=heat]").get_by_label("Shade by").select_option(measure)
        assert measure.capitalize() in page.locator("[data-panel=heat] .legend").inner_text()
    page.locator("[data-panel=heat]").get_by_label("Shade by").select_option("bytes")
    assert page.evaluate(CUT) == ["day=…", "…-01"]  # partitions still differ in what is left of them
    page.set_viewport_size({"width": 1280, "height": 1240})
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
    window.picture("page")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 1280, "height": 760})
    page.evaluate("() => scrollTo(0, document.querySelector('[data-panel=levels]').offsetTop - 70)")
    window.picture("dark")


def test_an_address_brings_back_what_was_looked_at(window: Window, shop: Any) -> None:
    page = window.room("shop/orders", "history")
    page.get_by_role("slider", name="Snapshots").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url("**snapshot=2*")
    page.get_by_role("link", name="Layout").press("Enter")
    page.wait_for_selector("[data-panel=heat][data-state=drawn]")
    assert page.evaluate("document.activeElement.textContent") == "Layout"  # a part is left without losing one's place
    assert "snapshot 2" in page.locator(".travel").inner_text()
    assert f"{shop.table('shop.orders').report.heat(2).files} files" in page.locator("[data-panel=heat]").inner_text()
    page.locator("[data-panel=heat]").get_by_label("Shade by").select_option("rows")
    page.locator("[data-figure=heat]").focus()
    for key in ("Home", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url("**bucket=0*")
    chosen = page.locator("[data-panel=levels] .caption").inner_text()
    page.reload()
    page.wait_for_selector("[data-panel=levels][data-state=drawn]")
    assert page.locator("[data-panel=levels] .caption").inner_text() == chosen
    assert page.locator("[data-panel=heat] select").first.input_value() == "rows"
    assert page.title() == "shop.orders · Layout · Bucketlake"
    page.go_back()
    page.wait_for_selector("[data-panel=timeline][data-state=drawn]")
    assert page.get_by_role("slider", name="Snapshots").get_attribute("aria-valuenow") == "2"
    page.go_back()
    page.wait_for_function("() => !document.querySelector('.travel').textContent")


def test_a_commit_leads_to_what_it_changed(window: Window) -> None:
    page = window.room("shop/orders", "history")
    page.get_by_role("slider", name="Snapshots").press("ArrowLeft")
    number = int(page.get_by_role("slider", name="Snapshots").get_attribute("aria-valuenow"))
    page.get_by_role("link", name="What changed").click()
    page.wait_for_selector(f"[data-panel=difference] .caption >> text=snapshot {number - 1} to {number}")
    assert page.get_by_label("to", exact=True).input_value() == str(number)


def test_one_mark_goes_over_both_charts_of_amplification(window: Window, shop: Any) -> None:
    page = window.room("shop/orders", "history")
    moments = shop.table("shop.orders").report.amplification().moments
    mark, panel = page.get_by_role("slider", name="Amplification"), page.locator("[data-panel=amplification]")
    assert mark.get_attribute("aria-valuenow") == str(moments[-1].snapshot)
    mark.press("Home")
    assert mark.get_attribute("aria-valuenow") == str(moments[0].snapshot)
    assert panel.locator(".rule").evaluate_all("all => all.map(one => one.getAttribute('x1'))") == ["0.0", "0.0"]
    assert f"{moments[0].write:.2f}×" in panel.locator(".pairs").inner_text()


def test_no_label_of_amplification_stands_on_another(window: Window) -> None:
    page = window.page

    def much(route: Any) -> None:
        found = route.fetch()
        told = found.json()
        told["moments"][-1]["space"] = 60.0
        route.fulfill(response=found, json=told)

    page.route("**/api/amplification?*", much)
    window.room("shop/orders", "history")
    boxes = """all => all.map(one => [...one.querySelectorAll('text')].map(text => text.getBoundingClientRect().toJSON()))"""
    for chart in page.locator("[data-panel=amplification] svg.chart").evaluate_all(boxes):
        assert len(chart) >= 3
        for n, one in enumerate(chart):
            for other in chart[:n]:
                apart = one["right"] <= other["left"] or other["right"] <= one["left"]
                assert apart or one["bottom"] <= other["top"] + 1 or other["bottom"] <= one["top"] + 1
    page.unroute("**/api/amplification?*")


def test_the_list_of_tables_keeps_what_was_searched(window: Window) -> None:
    page = window.page
    page.get_by_role("searchbox", name="Find a table").wait_for()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.type("shop.o")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1 >> text=orders")
    page.get_by_role("searchbox", name="Find a table").fill("shop.")
    page.get_by_role("link", name="Schema").click()
    page.locator("#tree a", has_text="customers").click()
    page.wait_for_selector("h1 >> text=customers")
    assert page.locator("#tree a").all_inner_texts() == ["customers", "orders"]
    assert page.locator("#tree a[aria-current]").inner_text() == "customers"
    assert page.locator(".rooms a[aria-current]").inner_text() == "Schema"  # another table, the same part
    assert page.evaluate("document.activeElement.id") == "main"


def test_on_paper_the_page_is_light_and_without_controls(window: Window) -> None:
    page = window.room("shop/orders", "history")
    page.emulate_media(color_scheme="dark", media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert not any(page.locator(one).first.is_visible() for one in (".top", "#tree", ".rooms", ".tools"))
    assert page.locator("[data-panel=timeline] canvas").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_files_are_sorted_by_their_headings(window: Window, shop: Any) -> None:
    page = window.room("shop/orders", "layout")
    total = shop.table("shop.orders").report.heat().files
    lines = page.locator("[data-figure=files] .line")
    sizes = [file.size for file in shop.table("shop.orders").report.files().files]
    assert f"{total} files" in page.locator("[data-panel=files]").inner_text()
    first = lines.first.inner_text()
    page.get_by_role("button", name="Bytes ↓").click()
    page.wait_for_selector("button >> text=Bytes ↑")
    assert sizes == sorted(sizes, reverse=True) and lines.first.inner_text() != first
    assert page.evaluate("document.activeElement.textContent") == "Bytes ↑"  # the heading keeps the focus
    page.locator("[data-panel=files]").get_by_label("Show").select_option("bucket")
    bucket = max((c.bytes, c.files) for p in shop.table("shop.orders").report.heat().partitions for c in p.cells)[1]
    page.wait_for_selector(f"[data-panel=files] >> text=/^{bucket} files?$/")


def test_rows_travel_in_time_and_differences_say_what_became_of_them(window: Window, shop: Any) -> None:
    page = window.room("shop/orders", "rows")
    sample = page.locator("[data-panel=sample]")
    assert "voucher" in sample.locator("thead").inner_text()
    sample.get_by_label("As of").select_option("1")
    page.wait_for_selector("[data-panel=sample] .caption >> text=As of snapshot 1")
    assert "voucher" not in sample.locator("thead").inner_text()
    assert page.locator(".travel").is_visible()
    compacted = next(s.id for s in shop.table("shop.orders").snapshots() if s.commit_kind.value == "COMPACT")
    difference = page.locator("[data-panel=difference]")
    difference.get_by_label("to", exact=True).select_option(str(compacted))
    difference.get_by_label("From").select_option(str(compacted - 1))
    page.wait_for_selector("[data-panel=difference] .nothing >> text=No row differs")
    difference.get_by_label("From").select_option("1")
    page.wait_for_selector("[data-panel=difference] tr.came")


def test_schemas_and_options_say_what_differs_and_hide_secrets(window: Window) -> None:
    page = window.room("shop/orders", "schema")
    steps = page.locator("[data-panel=evolution]").inner_text()
    assert "coupon → voucher" in steps and "target-file-size" in steps
    options = page.locator("[data-panel=options]")
    assert "write-only" in options.inner_text() and "***" in options.inner_text()
    assert "hunter2" not in page.content()
    options.get_by_label("Find").fill("changelog-producer")
    assert options.locator("li").count() >= 1
    options.get_by_label("Find").fill("no such option")
    assert "Nothing of that name" in options.inner_text()


def test_long_names_types_and_comments_of_columns_are_read_whole(window: Window) -> None:
    page, longest = window.page, "comment " * 30

    def longer(route: Any) -> None:
        found = route.fetch()
        told = found.json()
        told["columns"][1] |= {"name": "x" * 150, "type": f"ROW<{'a INT, ' * 30}b INT>", "comment": longest}
        route.fulfill(response=found, json=told)

    page.route("**/api/overview?*", longer)
    window.room("shop/orders", "schema")
    table = page.locator("[data-panel=columns] .grid")
    assert longest in table.inner_text()
    cut = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText)"
    assert table.locator("td").evaluate_all(cut) == []
    assert table.evaluate("one => one.parentElement.scrollWidth <= one.parentElement.clientWidth"), "beside the window"
    page.unroute("**/api/overview?*")


def test_advice_has_a_command_to_copy(window: Window) -> None:
    page = window.room("shop/orders", "maintenance")
    window.context.grant_permissions(["clipboard-read", "clipboard-write"])
    item = page.locator("[data-panel=advice] li").first
    item.get_by_role("button", name="Copy").first.click()
    page.wait_for_selector("text=Copied")
    assert page.evaluate("navigator.clipboard.readText()") == item.locator("code").first.inner_text()
    window.picture("maintenance")


def test_maintenance_asks_first_and_shows_how_it_goes(window: Window, shop: Any) -> None:
    page = window.room("web/clicks", "maintenance")
    before = len(shop.table("web.clicks").snapshots())
    page.get_by_role("button", name="Compact…").click()
    page.get_by_role("button", name="Leave it").click()
    page.locator("dialog").wait_for(state="detached")
    assert len(shop.table("web.clicks").snapshots()) == before
    page.get_by_role("button", name="Tag…").click()
    page.get_by_role("dialog").get_by_role("button", name="Tag").click()
    page.wait_for_selector("dialog [role=alert] >> text=Name: this is needed")  # and nothing is started
    page.get_by_role("dialog").get_by_label("Name", exact=True).fill(HOSTILE[0])
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-panel=activity] .job.done")
    assert HOSTILE[0] in shop.table("web.clicks").tags()
    assert HOSTILE[0] in page.locator("[data-panel=activity]").inner_text()


def test_a_commit_of_others_is_announced(window: Window, shop: Any) -> None:
    page = window.room("web/empty", "history")
    assert window.states()["timeline"] == window.states()["amplification"] == "empty"
    page.evaluate("document.querySelector('[data-panel=activity]').refresh(true)")
    page.wait_for_selector("text=Nothing was committed yet. The first write")
    assert "No streams, no consumers, no jobs" in page.locator("[data-panel=activity]").inner_text()


def test_a_commit_is_announced_in_every_part_and_shown_when_it_is_wanted(browser: Any, tmp_path: Path) -> None:
    table = bucketlake.open(tmp_path).create_table("default.t", pa.schema([("id", pa.int64())]))
    table.write_arrow(pa.table({"id": [1]}))
    with served(bucketlake.open(tmp_path)) as running:
        window = Window(browser, running)
        window.page.clock.install()
        page = window.room("default/t", "layout")
        page.wait_for_selector("[data-panel=files] >> text=/^1 file$/")
        table.write_arrow(pa.table({"id": [2]}))
        page.clock.fast_forward(11_000)
        page.wait_for_selector(".travel >> text=Snapshot 2 has been committed")
        page.get_by_role("button", name="Show it").click()
        page.wait_for_selector("[data-panel=files] >> text=/^2 files$/")
        assert window.wrong == []
        window.close()


@pytest.mark.parametrize("room", ROOMS)
def test_hostile_names_are_shown_as_they_are(window: Window, room: str) -> None:
    page = window.room("default/x%3Ci%3Ey", room)
    assert "x<i>y" in page.locator("h1").inner_text()
    assert "<script>alert(2)</script>" in page.locator(".head").inner_text()
    assert page.locator("main img, main script, main i.evil").count() == 0
    assert "failed" not in window.states().values()
    if room == "layout":
        shown = page.locator("[data-figure=files]").inner_text()
        assert "p=⟨U+202E⟩evil" in shown and f"p={HOSTILE[0]}" in shown


def test_what_is_missing_or_damaged_is_said_and_can_be_tried_again(browser: Any, tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    table = catalog.create_table("default.hurt", pa.schema([("id", pa.int64())]))
    table.write_arrow(pa.table({"id": [1]}))
    manifest = Path(table.path) / "manifest" / table.store.delta_manifests(table.latest_snapshot())[0].file_name
    whole = manifest.read_bytes()
    manifest.write_bytes(b"gone")
    frames.clear()
    with served(catalog) as running:
        window = Window(browser, running)
        page = window.room("default/hurt", "layout")
        states = window.states()
        assert states["heat"] == states["files"] == states["sizes"] == "failed"
        assert "cut short" in page.locator("[data-panel=heat] [role=alert]").inner_text()
        assert "cut short" in page.locator(".head [role=alert]").inner_text()
        manifest.unlink()
        frames.clear()
        page.reload()
        step = page.wait_for_selector("[data-panel=heat] [role=alert] code")
        assert step.inner_text() == f"bucketlake fsck -w {tmp_path} default.hurt"
        manifest.write_bytes(whole)
        page.locator("[data-panel=heat]").get_by_role("button", name="Try again").click()
        page.wait_for_selector("[data-panel=heat][data-state=drawn]")
        page.goto(f"{running.origin}/#/table/default/nothing/history")
        page.wait_for_selector(".head [role=alert] >> text=no such table")
        page.wait_for_function("() => document.querySelectorAll('.panel').length === 0")  # said once
        page.get_by_role("link", name="To the warehouse").click()
        page.wait_for_selector(".card")
        page.goto(f"{running.origin}/#/table/default/hurt/maintenance")
        page.wait_for_selector("text=This page only looks")  # it was started without maintenance
        assert page.get_by_role("button", name="Compact…").count() == 0
        assert all(re.search(r"status of (404|500)", text) for text in window.wrong), window.wrong
        window.close()


def test_a_figure_that_takes_long_says_that_it_is_loading_and_a_lost_server_that_it_is_lost(window: Window) -> None:
    page = window.page
    window.meant = "ERR_FAILED"
    held: list[Any] = []
    holding = True
    page.route("**/api/heat?*", lambda route: held.append(route) if holding else route.continue_())
    page.route("**/api/sizes?*", lambda route: route.abort())
    page.goto(f"{window.running.origin}/#/table/shop/orders/layout")
    page.wait_for_selector("[data-panel=heat][data-state=loading][aria-busy=true] [role=status]")
    page.evaluate(VISIT)
    page.wait_for_selector("[data-panel=sizes][data-state=failed] >> text=cannot be reached")
    page.unroute("**/api/sizes?*")
    page.locator("[data-panel=sizes]").get_by_role("button", name="Try again").click()
    page.wait_for_selector("[data-panel=sizes][data-state=drawn]")
    holding = False
    for route in held:
        with suppress(playwright.Error):  # one that the page has given up
            route.continue_()
    page.wait_for_selector("[data-panel=heat][data-state=drawn]")
    page.unroute("**/api/heat?*")


def test_the_content_is_one_key_away(window: Window) -> None:
    page = window.page
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_the_theme_is_chosen_and_kept(window: Window) -> None:
    page = window.page
    for wanted in ("light", "dark"):
        page.locator("#theme").click()
        assert page.evaluate("document.documentElement.dataset.theme") == wanted
    page.reload()
    page.wait_for_selector("#mode:not([hidden])")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_nothing_can_be_loaded_or_run_that_is_not_the_servers(browser: Any, server: Any) -> None:
    window = Window(browser, server)
    ran = window.page.evaluate(
        """async () => {
          const tried = [];
          const add = (tag, props) => { const one = Object.assign(document.createElement(tag), props); document.body.append(one); };
          try { add("script", { textContent: "window.ran = 1" }); } catch { tried.push("script"); }
          try { document.body.innerHTML += "<b>x</b>"; } catch { tried.push("html"); }
          try { await fetch("http://127.0.0.1:9/"); } catch { tried.push("fetch"); }
          return [window.ran === undefined, tried];
        }"""
    )
    assert ran == [True, ["script", "html", "fetch"]]
    window.close()
