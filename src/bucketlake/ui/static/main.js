// The page: which place the address names, what is shown there, the list beside it.

import { ask, session } from "./api.js";
import { button, fill, h } from "./dom.js";
import { homePage, tree } from "./home.js";
import { address, read, same } from "./place.js";
import { tablePage } from "./table.js";
import { start } from "./theme.js";

const main = document.getElementById("main");
const side = document.getElementById("tree");
const where = document.getElementById("where");
const menu = document.getElementById("menu");
let started = { maintenance: false, to_maintain: "" }; // how, as the server says
let known = { databases: [], warehouse: "" };
let shown = null;
let list = null;

function fold(open) {
  side.classList.toggle("open", open);
  menu.setAttribute("aria-expanded", String(open));
}

function show(moved = true) {
  const place = read();
  fold(false);
  if (place && shown?.place && same(shown.place, place)) shown.to(place);
  else {
    if (shown?.leave) shown.leave();
    shown = place ? tablePage(place, started) : homePage(known, address, begin);
    fill(main, shown);
    scrollTo(0, 0);
    if (moved) main.focus({ preventScroll: true });
  }
  fill(where, place && [h("a", { href: "#/" }, "Warehouse"), h("span", { "aria-hidden": "true" }, " / "), h("span", {}, place.database), h("span", { "aria-hidden": "true" }, " / "), h("b", {}, place.table)]);
  document.title = place ? `${place.database}.${place.table} · ${shown.part} · Bucketlake` : "Bucketlake";
  list?.mark(place);
  if (!place && moved) lookAgain();
}

// Tables that came or went since: whoever goes to the warehouse sees them.
async function lookAgain() {
  const found = await ask("databases").catch(() => null);
  if (!found || JSON.stringify(found) === JSON.stringify(known)) return;
  known = found;
  list = tree(side, known, address);
  if (!read()) show(false); else list.mark(read());
}

async function begin() {
  fill(main, h("p", { class: "nothing", role: "status" }, "Loading…"));
  try {
    started = await session();
    const allowed = started.maintenance;
    const badge = document.getElementById("mode");
    badge.hidden = false;
    badge.textContent = allowed ? "maintenance" : "read-only";
    badge.title = allowed ? "Started with --allow-maintenance: this page may compact, expire and tag" : "This page changes nothing";
    badge.classList.toggle("strong", allowed);
    known = await ask("databases");
  } catch (error) {
    known = { databases: [], warehouse: "", error };
    fill(main, h("div", { class: "failure", role: "alert" }, h("p", {}, error.message), button("Try again", begin, { class: "quiet" })));
    if (error.kind === "locked" || error.kind === "gone") return;
  }
  list = tree(side, known, address);
  show(false);
}

start(document.getElementById("theme"));
menu.addEventListener("click", () => {
  fold(!side.classList.contains("open"));
  if (side.classList.contains("open")) side.querySelector("input")?.focus();
});
document.getElementById("skip").addEventListener("click", () => main.focus());
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest("input, select, dialog")) {
    fold(true);
    side.querySelector("input")?.focus();
    event.preventDefault();
  }
  if (event.key !== "Escape" || !side.classList.contains("open")) return;
  fold(false);
  menu.focus();
});
addEventListener("hashchange", () => show());
begin();
