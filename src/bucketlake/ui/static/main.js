// The page: which place the address names, what is shown there, the list beside it.

import { ask, session } from "./api.js";
import { button, fill, h } from "./dom.js";
import { homePage, tree } from "./home.js";
import { tablePage } from "./table.js";
import { start } from "./theme.js";

const main = document.getElementById("main");
const side = document.getElementById("tree");
const where = document.getElementById("where");
const menu = document.getElementById("menu");
let allowed = false;
let known = { databases: [], warehouse: "" };
let shown = null;

const go = (place) => `#/${["table", place.database, place.table, place.room || "history", ...(place.branch ? [place.branch] : [])].map(encodeURIComponent).join("/")}`;

function parts() {
  try {
    const [kind, database, table, room, branch] = location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
    return kind === "table" && database && table ? { database, table, room: room || "history", branch: branch || null } : null;
  } catch { return null; }
}

function fold(open) {
  side.classList.toggle("open", open);
  menu.setAttribute("aria-expanded", String(open));
}

function show() {
  const place = parts();
  if (shown?.leave) shown.leave();
  fold(false);
  shown = place ? tablePage(place, allowed, go) : homePage(known, go, begin);
  fill(main, shown);
  fill(where, place && [h("a", { href: "#/" }, "Warehouse"), h("span", { "aria-hidden": "true" }, " / "), h("span", {}, place.database), h("span", { "aria-hidden": "true" }, " / "), h("b", {}, place.table)]);
  document.title = place ? `${place.database}.${place.table} · Bucketlake` : "Bucketlake";
  tree(side, known, go, place);
  scrollTo(0, 0);
}

async function begin() {
  fill(main, h("p", { class: "nothing", role: "status" }, "Loading…"));
  try {
    const found = await session();
    allowed = found.maintenance;
    const badge = document.getElementById("mode");
    badge.hidden = false;
    badge.textContent = allowed ? "maintenance" : "read-only";
    badge.classList.toggle("strong", allowed);
    known = await ask("databases");
  } catch (error) {
    known = { databases: [], warehouse: "", error };
    fill(main, h("div", { class: "failure", role: "alert" }, h("p", {}, error.message), button("Try again", begin, { class: "quiet" })));
    if (error.kind === "locked" || error.kind === "gone") return;
  }
  show();
}

start(document.getElementById("theme"));
menu.addEventListener("click", () => fold(!side.classList.contains("open")));
document.getElementById("skip").addEventListener("click", () => main.focus());
document.addEventListener("keydown", (event) => { if (event.key === "Escape") fold(false); });
addEventListener("hashchange", show);
begin();
