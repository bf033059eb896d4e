// The time line: a bar a snapshot, what it added above and what it removed below; rows stored as a line over them; tags,
// branches and consumers on top.

import { ask } from "./api.js";
import { block, surface, text } from "./canvas.js";
import { button, fill, h, plain, select } from "./dom.js";
import { ago, brief, bytes, count, plural, universal, when } from "./format.js";
import { panel } from "./panel.js";

const HEIGHT = 214;
const TOP = 34;
const FOOT = 190;
const [LEAST, MOST] = [3, 44];
const KINDS = { APPEND: ["teal", "write"], COMPACT: ["amber", "compaction"], OVERWRITE: ["rust", "overwrite"], ANALYZE: ["grey", "statistics"] };

export function timelinePanel(table) {
  return panel({
    name: "timeline",
    title: "History",
    wide: true,
    caption: "One bar per commit, the newest on the right: bytes added above the line, removed below. Good: writes of a steady size, and a compaction now and then.",
    about: {
      what: "Each bar is one snapshot, as tall as the square root of its bytes. Above the line: new files. Below: files that it removed from the table; they stay on disk for older snapshots. The grey line is the rows stored after each. Marks on top are tags, branches and consumers.",
      good: "Writes of a steady size, with a compaction now and then. Many tiny bars mean many tiny files; compactions that are taller than the writes between them cost more than they bring.",
      act: "Move with ← and →, zoom with + and −. “View this snapshot” shows layout and rows as of then. Commit less often where bars are tiny; compact in one job of its own where writers wait.",
    },
    controls: [select("Commits", [[50, "50"], [200, "200"], [1000, "1,000"], [2000, "2,000"]], table.limit, (value) => {
      table.choose({ commits: value });
      for (const name of ["timeline", "amplification"]) table.element(name).refresh();
    })],
    load: (signal) => ask("timeline", { ...table.place, limit: table.limit }, signal),
    empty: (data) => data.commits.length === 0 && "Nothing was committed yet. The first write makes snapshot 1.",
    draw: (data) => drawn(table, data),
  });
}

function drawn(table, data) {
  const commits = data.commits;
  table.commits = commits;
  table.changed("commits");
  const wanted = table.number("commit") || table.snapshot;
  const at = commits.findIndex((one) => one.snapshot === wanted);
  const view = { first: 0, width: 0, chosen: at < 0 ? commits.length - 1 : at, over: -1 };
  // One scale up and down, by the root: what is taken away is as tall as what was added.
  const [up, down] = ["added_bytes", "removed_bytes"].map((key) => Math.sqrt(Math.max(1, ...commits.map((one) => one[key]))));
  const room = FOOT - TOP - 4;
  const BASE = TOP + Math.round(room * Math.max(0.4, Math.min(0.86, up / (up + down))));
  const scale = Math.min((BASE - TOP) / up, (FOOT - BASE - 4) / down);
  const tall = (size) => (size ? Math.max(2, Math.sqrt(size) * scale) : 0);
  const most = Math.max(1, ...commits.map((one) => one.rows));
  const details = h("div", { class: "details" }); // the slider tells its value itself
  const box = surface(HEIGHT, paint, {
    tabindex: "0", role: "slider", "aria-label": "Snapshots", "aria-valuemin": commits[0].snapshot,
    "aria-valuemax": commits[commits.length - 1].snapshot, "aria-orientation": "horizontal", data: { figure: "timeline" },
  });
  let slot = 0;

  function fit(width) {
    const usual = Math.min(MOST, Math.max(7, width / commits.length));
    if (!slot) { slot = usual; view.first = Math.max(0, commits.length - Math.floor(width / slot + 0.001)); }
    const room = Math.max(1, Math.floor(width / slot + 0.001));
    view.first = Math.max(0, Math.min(view.first, commits.length - room));
    return room;
  }

  function paint(context, width, height, c) {
    const room = fit(width);
    const last = Math.min(commits.length, view.first + room + 1);
    context.fillStyle = c.line;
    context.fillRect(0, BASE, width, 1);
    let free = -1;
    let marked = -1;
    for (let n = view.first; n < last; n += 1) {
      const one = commits[n];
      const x = (n - view.first) * slot;
      const wide = Math.max(1.5, Math.min(22, slot - (slot > 6 ? 3 : 1)));
      const left = x + (slot - wide) / 2;
      if (n === view.chosen || n === view.over) {
        context.fillStyle = n === view.chosen ? c["accent-soft"] : c.raised;
        block(context, x, TOP - 6, slot, FOOT - TOP + 8, 4);
        context.fill();
      }
      bar(context, c, one, left, wide, tall(one.added_bytes), tall(one.removed_bytes));
      const names = [...one.tags, ...one.branches, ...one.consumers];
      if (names.length) marked = mark(context, c, one, names, x + slot / 2, marked, width);
      if (x > free) {
        const label = slot < 26 ? String(one.snapshot) : `#${one.snapshot}`;
        const half = context.measureText(label).width / 2;
        text(context, label, Math.max(half, x + slot / 2), FOOT + 13, undefined, n === view.chosen ? c.ink : c.muted, "center");
        free = x + Math.max(context.measureText(label).width + 14, 40);
      }
    }
    rows(context, c, last);
  }

  function rows(context, c, last) {
    context.strokeStyle = c.grey;
    context.lineWidth = 1.5;
    context.beginPath();
    for (let n = Math.max(0, view.first - 1); n < last; n += 1) {
      context.lineTo((n - view.first + 0.5) * slot, FOOT - 3 - commits[n].rows / most * (FOOT - TOP - 3));
    }
    context.stroke();
    context.lineWidth = 1;
  }

  function bar(context, c, one, left, wide, up, down) {
    const colour = one.damaged ? c.warn : c[KINDS[one.kind]?.[0]] || c.grey;
    context.fillStyle = colour;
    if (up) {
      block(context, left + 0.5, BASE - up, Math.max(1, wide - 1), up, 2);
      context.fill();
      if (one.kind === "COMPACT" && wide > 3) { context.strokeStyle = c["amber-edge"]; context.stroke(); }
      if (one.kind === "OVERWRITE" && wide > 3) {
        context.strokeStyle = c.paper;
        for (let y = BASE - up + 3; y < BASE - 1; y += 4) { context.beginPath(); context.moveTo(left + 1, y); context.lineTo(left + wide - 1, y); context.stroke(); }
      }
    } else {
      context.beginPath();
      context.arc(left + wide / 2, BASE - 3, Math.min(2, wide / 2), 0, 7);
      context.fill();
    }
    if (down) {
      context.globalAlpha = 0.45;
      block(context, left + 0.5, BASE + 2, Math.max(1, wide - 1), down, 2);
      context.fill();
      context.globalAlpha = 1;
    }
  }

  function mark(context, c, one, names, x, taken, width) {
    context.fillStyle = one.tags.length ? c.accent : c.muted;
    context.beginPath();
    if (one.tags.length) { context.moveTo(x, 26); context.lineTo(x - 4, 18); context.lineTo(x + 4, 18); } else context.arc(x, 22, 3, 0, 7);
    context.fill();
    const label = names.length > 1 ? `${names[0]} +${names.length - 1}` : names[0];
    const long = Math.min(context.measureText(label).width, 120);
    const left = Math.max(0, Math.min(x - long / 2, width - long));
    if (left <= taken) return taken;
    text(context, label, left, 8, 121, c.ink);
    return left + long + 10;
  }

  function choose(n, follow = true) {
    view.chosen = Math.max(0, Math.min(commits.length - 1, n));
    const room = fit(box.box.clientWidth || 300);
    if (follow && view.chosen < view.first) view.first = view.chosen;
    if (follow && view.chosen >= view.first + room) view.first = view.chosen - room + 1;
    table.choose({ commit: view.chosen === commits.length - 1 ? null : commits[view.chosen].snapshot });
    tell();
    box.redraw();
  }

  function tell() {
    const one = commits[view.chosen];
    box.box.setAttribute("aria-valuenow", one.snapshot);
    box.box.setAttribute("aria-valuetext", `Snapshot ${one.snapshot}, ${one.words}, ${when(one.time)}, ${plural(one.added_files, "file")} added, ${one.removed_files} removed`);
    fill(details, described(table, one, commits[view.chosen - 1]));
  }

  function zoom(by) {
    const room = fit(box.box.clientWidth || 300);
    const middle = view.first + room / 2;
    slot = Math.max(LEAST, Math.min(MOST, slot * by));
    view.first = Math.round(middle - (box.box.clientWidth || 300) / slot / 2);
    box.redraw();
  }

  const place = (event) => Math.min(commits.length - 1, view.first + Math.floor((event.clientX - box.box.getBoundingClientRect().left) / slot));
  box.box.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -commits.length, End: commits.length };
    if (event.key in steps) choose(view.chosen + steps[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(1.4);
    else if (event.key === "-") zoom(1 / 1.4);
    else if (event.key === "Enter") table.look(commits[view.chosen].snapshot);
    else return;
    event.preventDefault();
  });
  box.box.addEventListener("click", (event) => choose(place(event), false));
  box.box.addEventListener("pointermove", (event) => {
    const over = place(event);
    if (over === view.over) return;
    view.over = over;
    const one = commits[over];
    box.box.title = one ? plain(`Snapshot ${one.snapshot}: ${one.words}, ${when(one.time)}\n+${bytes(one.added_bytes)}, −${bytes(one.removed_bytes)}, ${plural(one.rows, "row")} stored`) : "";
    box.redraw();
  });
  box.box.addEventListener("pointerleave", () => { view.over = -1; box.redraw(); });
  box.box.addEventListener("wheel", (event) => {
    if (event.ctrlKey) zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { view.first += Math.sign(event.deltaX) * Math.max(1, Math.round(Math.abs(event.deltaX) / slot)); box.redraw(); }
    else return;
    event.preventDefault();
  }, { passive: false });
  tell();
  return [
    box.box,
    h("div", { class: "row legend" },
      Object.entries(KINDS).filter(([kind]) => commits.some((one) => one.kind === kind)).map(([, [colour, word]]) => h("span", { class: `key ${colour}` }, word)),
      commits.some((one) => one.removed_bytes) && h("span", { class: "key pale" }, "removed"), h("span", { class: "key stroke" }, `rows stored, up to ${brief(most)}`),
      h("span", {}, `tallest bar ${bytes(Math.max(up, down) ** 2)}`),
      h("span", { class: "together" },
        button("−", () => zoom(1 / 1.4), { class: "quiet small", "aria-label": "Zoom out" }),
        button("+", () => zoom(1.4), { class: "quiet small", "aria-label": "Zoom in" }),
        button("Newest", () => choose(commits.length - 1), { class: "quiet small" }))),
    details,
    named(table, data),
    data.left_out > 0 && h("p", { class: "hint" }, `${plural(data.left_out, "older snapshot")} not shown.`),
  ];
}

function described(table, one, before) {
  const pairs = [
    ["When", [h("time", { datetime: new Date(one.time).toISOString(), title: universal(one.time) }, when(one.time)), h("span", { class: "muted" }, ` · ${ago(one.time)}`)]],
    ["By", h("span", { class: "mono cut", title: one.user }, one.user)],
    ["Rows stored", `${one.delta_rows < 0 ? "−" : "+"}${count(Math.abs(one.delta_rows))} → ${count(one.rows)}`],
    ["Added", one.added_files ? `${plural(one.added_files, "file")}, ${bytes(one.added_bytes)}` : "no file"],
    ["Removed", one.removed_files ? `${plural(one.removed_files, "file")}, ${bytes(one.removed_bytes)}` : "no file"],
    one.moved_files && ["Moved", `${plural(one.moved_files, "file")} to another level, not rewritten`],
    one.changelog_rows && ["Changelog", `${brief(one.changelog_rows)} rows`],
    one.stream && ["Stream batch", h("span", { class: "mono" }, one.stream)],
    one.watermark !== null && one.watermark !== undefined && ["Watermark", when(one.watermark)],
    ["Schema", h("a", { href: table.at("schema") }, String(one.schema_id))],
  ].filter(Boolean);
  const marks = [...one.tags.map((n) => ["tag", n]), ...one.branches.map((n) => ["branch", n]), ...one.consumers.map((n) => ["consumer", n])];
  return [
    h("div", { class: "headline" },
      h("strong", {}, `Snapshot ${one.snapshot}`), h("span", {}, one.words),
      marks.slice(0, 12).map(([kind, name]) => h("span", { class: `pill ${kind}` }, `${kind} `, h("b", {}, name))),
      h("span", { class: "spring" }),
      before && h("a", { class: "action", href: table.at("rows", { from: before.snapshot, to: one.snapshot }) }, "What changed"),
      table.snapshot === one.snapshot ? button("Back to the newest", () => table.look(null), { class: "quiet" })
        : button("View this snapshot", () => table.look(one.snapshot), { class: "quiet" })),
    one.damaged && h("p", { class: "warn" }, one.damaged),
    h("dl", { class: "pairs" }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
  ];
}

function named(table, data) {
  const list = (title, items) => items.length > 0 && h("div", {}, h("h3", {}, title), h("ul", { class: "plain" }, items.slice(0, 50)));
  return h("div", { class: "columns" },
    list("Tags", data.tags.map((tag) => h("li", {}, tag.expired ? h("b", {}, tag.name) : h("a", { href: table.at("history", { snapshot: tag.snapshot, commit: null }), title: `View snapshot ${tag.snapshot}` }, tag.name), h("span", { class: "muted" }, ` snapshot ${tag.snapshot}${tag.expired ? ", kept by the tag alone" : ""} · ${brief(tag.rows)} rows`)))),
    list("Branches", data.branches.map((one) => h("li", {}, h("a", { href: table.branchLink(one.name) }, one.name), h("span", { class: "muted" }, ` ${one.forked_from ? `from snapshot ${one.forked_from}` : "on its own"} · ${plural(one.commits, "commit")}${one.newest_time ? `, the newest ${ago(one.newest_time)}` : ""}`)))),
    list("Consumers", data.consumers.map((one) => h("li", {}, h("b", {}, one.name), h("span", { class: one.lag > 10 ? "warn" : "muted" }, ` reads snapshot ${one.next_snapshot} next · ${one.lag ? `${plural(one.lag, "snapshot")} behind` : "up to date"}`)))));
}
