// The warehouse: its databases and tables, each with a few figures; and the same as a list beside every page.

import { ask } from "./api.js";
import { button, fill, h, unique } from "./dom.js";
import { ago, briefly, bytes, plural } from "./format.js";

const AT_ONCE = 3;
const LISTED = 500;

export function homePage(known, go, retry) {
  const page = h("div", { class: "home" });
  const cards = [];
  let left = false;
  if (known.error) {
    return fill(page, h("h1", {}, "Warehouse"), h("div", { class: "failure", role: "alert" }, h("p", {}, known.error.message), button("Try again", retry, { class: "quiet" })));
  }
  const total = known.databases.reduce((sum, one) => sum + one.tables.length + one.left_out, 0);
  fill(page, h("h1", {}, "Warehouse"), h("p", { class: "lead" }, h("span", { class: "mono" }, known.warehouse), total > 0 && ` · ${plural(known.databases.length + known.left_out, "database")}, ${plural(total, "table")}`),
    total === 0 && h("section", { class: "panel", data: { panel: "nothing", state: "empty" } }, h("p", { class: "nothing" }, "No tables yet. ", h("code", {}, "bucketlake import FILE TABLE"), " makes one of a file, ", h("code", {}, "bucketlake demo"), " some to look at.")),
    total > 0 && known.databases.map((one) => h("section", { class: "database", "aria-label": `Database ${one.name}` },
      h("h2", {}, one.name, h("span", { class: "muted" }, ` ${one.tables.length + one.left_out ? plural(one.tables.length + one.left_out, "table") : "no tables"}`)),
      h("ul", { class: "cards" }, one.tables.map((name) => {
        const figures = h("span", { class: "small-figures muted" }, "…");
        const card = h("li", {}, h("a", { class: "card", href: go({ database: one.name, table: name, room: "history" }) }, h("strong", { title: name }, name), figures));
        card.figures = figures;
        card.place = { database: one.name, table: name };
        cards.push(card);
        return card;
      })), one.left_out > 0 && h("p", { class: "hint" }, `${plural(one.left_out, "more table")} not shown.`))));
  const waiting = [];
  let running = 0;
  const next = () => {
    while (running < AT_ONCE && waiting.length && !left) {
      const card = waiting.shift();
      running += 1;
      ask("overview", card.place).then((found) => fill(card.figures, h("span", {}, found.keyed ? "primary key" : "append"), h("span", {}, found.time ? ago(found.time) : "never written"), found.rows > 0 && h("span", {}, briefly(found.rows, "row")), found.bytes > 0 && h("span", {}, bytes(found.bytes)), found.partitions > 1 && h("span", {}, plural(found.partitions, "partition")), found.damaged && h("span", { class: "warn" }, "damaged")),
        (error) => fill(card.figures, h("span", { class: "warn" }, error.message))).finally(() => { running -= 1; next(); });
    }
  };
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); waiting.push(entry.target); }
    next();
  });
  cards.forEach((card) => seen.observe(card));
  page.leave = () => { left = true; seen.disconnect(); };
  return page;
}

// The list of tables: made once, so that what was searched and scrolled stays; `mark` says where one is.
export function tree(element, known, go) {
  const id = unique("find");
  const lists = h("div", { class: "lists" });
  const find = h("input", { id, type: "search", placeholder: "Find a table", "aria-label": "Find a table", "aria-keyshortcuts": "/", on: { input: () => show(), keydown: (event) => { if (event.key === "Enter" && find.value && links.length) links[0][0].click(); } } });
  let place = null;
  let links = [];

  function show() {
    const search = find.value.toLowerCase();
    links = [];
    const found = known.databases.map((one) => [one, one.tables.filter((name) => !search || `${one.name}.${name}`.toLowerCase().includes(search))]).filter(([, tables]) => tables.length);
    fill(lists, found.length === 0 && h("p", { class: "muted" }, search ? "No such table." : "No tables."),
      found.map(([one, tables]) => h("div", { class: "database" }, h("h2", {}, one.name), h("ul", { class: "plain" }, tables.slice(0, LISTED).map((name) => {
        const link = h("a", { href: "#/", title: `${one.name}.${name}` }, name);
        links.push([link, { database: one.name, table: name }]);
        return h("li", {}, link);
      })), tables.length > LISTED && h("p", { class: "muted" }, `${plural(tables.length - LISTED, "more table")}: find them by name.`))));
    mark(place);
  }

  function mark(now) {
    place = now;
    for (const [link, own] of links) {
      link.setAttribute("href", go({ ...own, room: place?.room }));
      const here = place !== null && place.database === own.database && place.table === own.table;
      if (here) { link.setAttribute("aria-current", "page"); if (element.clientHeight) link.scrollIntoView({ block: "nearest" }); } else link.removeAttribute("aria-current");
    }
  }

  fill(element, find, lists);
  show();
  return { mark };
}
