// How large files are: a histogram over powers of two, and a list of all files that draws what is in view.

import { ask } from "./api.js";
import { chart } from "./canvas.js";
import { button, h, plain, s, select, unique } from "./dom.js";
import { brief, bytes, count, plural, when } from "./format.js";
import { panel } from "./panel.js";

export function sizesPanel(table) {
  return panel({
    name: "sizes",
    title: "File sizes",
    wide: true,
    caption: "How many files there are of each size. Good: most near the target; those below a quarter of it stand out.",
    about: {
      what: "Each column counts the files between one power of two and the next; below a quarter of the target they are orange. The line is the target, the size at which writers begin a new file.",
      good: "Most files near the line. Level 0 of a table with a key holds small files for a while: that is as it should be.",
      act: "Many files far left of the line: compact, write less often, or with fewer tasks. Change the line with the option target-file-size.",
    },
    load: (signal) => ask("sizes", { ...table.place, snapshot: table.snapshot }, signal),
    empty: (data) => data.files === 0 && "No files here.",
    draw: histogram,
  });
}

function histogram(data) {
  return h("div", { class: "split" }, chart((width) => bars(data, width)), h("dl", { class: "pairs" },
    [["Files", count(data.files)], ["Smallest", bytes(data.smallest)], ["Median", bytes(data.median)], ["Largest", bytes(data.largest)], ["Below a quarter of the target", `${count(data.small)} (${Math.round(100 * data.small / data.files)} %)`]]
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
}

function bars(data, width) {
  const [height, foot] = [200, 30];
  const low = Math.floor(Math.log2(data.bins[0].low));
  const last = Math.max(Math.log2(data.bins[data.bins.length - 1].high), Math.ceil(Math.log2(data.target)) + 1);
  const steps = Math.max(6, last - low);
  const wide = width / steps;
  const most = Math.max(...data.bins.map((bin) => bin.files));
  const room = height - foot - 22;
  const title = unique("sizes");
  const columns = data.bins.filter((bin) => bin.files).map((bin) => {
    const x = (Math.log2(bin.low) - low) * wide;
    const tall = Math.max(2, bin.files / most * room);
    const label = `${bytes(bin.low)} to ${bytes(bin.high)}: ${plural(bin.files, "file")}, ${bytes(bin.bytes)}`;
    return s("g", { class: "bar", tabindex: "0", role: "img", "aria-label": label }, s("title", {}, label),
      s("rect", { x, y: 0, width: wide, height: height - foot, class: "hit" }),
      s("rect", { x: x + 2, y: height - foot - tall, width: Math.max(2, wide - 4), height: tall, rx: 3, class: bin.high <= data.target / 4 ? "solid small" : "solid" }),
      s("text", { x: x + wide / 2, y: height - foot - tall - 7, "text-anchor": "middle" }, brief(bin.files)));
  });
  const every = Math.ceil(steps / Math.max(2, Math.floor(width / 90)));
  const ticks = Array.from({ length: steps + 1 }, (_, n) => n).filter((n) => n % every === 0)
    .map((n) => s("text", { x: Math.min(width - 24, Math.max(26, n * wide)), y: height - foot + 17, "text-anchor": "middle", class: "muted" }, bytes(2 ** (low + n))));
  const line = (Math.log2(data.target) - low) * wide;
  const near = line > width * 0.6;
  return s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-labelledby": title, "data-figure": "sizes" },
    s("title", { id: title }, `Sizes of ${plural(data.files, "file")}`),
    s("line", { x1: 0, x2: width, y1: height - foot + 0.5, y2: height - foot + 0.5, class: "axis" }), columns, ticks,
    s("line", { x1: line, x2: line, y1: 0, y2: height - foot, class: "target" }),
    s("text", { x: line + (near ? -6 : 6), y: 10, "text-anchor": near ? "end" : "start", class: "muted" }, `target ${bytes(data.target)}`));
}

const ROW = 30;
const PAGE = 200;
const COLUMNS = [["name", "File", "minmax(0, 3fr)"], ["partition", "Partition", "minmax(0, 2fr)"], ["bucket", "Bucket", "56px"], ["level", "Level", "52px"], ["size", "Bytes", "84px"], ["rows", "Rows", "84px"], ["created", "Created", "150px"]];

// A table without partitions, buckets or levels has no such columns.
const columnsOf = (table) => COLUMNS.filter(([key]) => !((key === "partition" && table.overview?.partition_key.length === 0) || (key === "bucket" && table.unbucketed) || (key === "level" && table.overview?.keyed === false)));

export function filesPanel(table) {
  const order = { sort: "size", descending: true };
  let only = "all";
  const own = () => (only === "bucket" && table.chosen ? table.chosen : {});
  const made = panel({
    name: "files",
    title: "Data files",
    wide: true,
    caption: "Every data file of the snapshot; a heading sorts. Good: few, near the target size.",
    controls: [select("Show", [["all", "all files"], ["bucket", "the chosen bucket"]], only, (value) => { only = value; made.refresh(); })],
    about: {
      what: "The live files, as the snapshot's manifests name them, a few hundred fetched at a time.",
      good: "Names, sizes and ages as you would expect: nothing much older than the last full compaction.",
      act: "Sort by bytes to find the smallest, by age to find what was never compacted.",
    },
    load: async (signal) => (await table.ready, ask("files", { ...table.place, snapshot: table.snapshot, ...own(), ...order, start: 0, count: PAGE }, signal)),
    empty: (data) => data.total === 0 && "No files here.",
    draw: (data, { refresh }) => listing(table, data, { order, own: own() }, refresh),
  });
  table.watch("bucket", () => { if (only === "bucket") made.refresh(true); });
  return made;
}

function listing(table, first, { order, own }, refresh) {
  const columns = columnsOf(table);
  const pages = new Map([[0, first.files]]);
  const asked = new Set([0]);
  const rows = h("div", { class: "rows", role: "presentation", on: { pointerover: (event) => { const one = event.target.closest(".cell"); if (one) one.title = one.textContent; } } });
  const space = h("div", { class: "space", role: "presentation" }, rows);
  const view = h("div", { class: "list-view", tabindex: "0", role: "rowgroup", "aria-label": "Files, scrolls", data: { figure: "files" } }, space);
  space.style.setProperty("height", `${Math.min(first.total * ROW, 8000000)}px`);
  let drawn = -1;
  let asking = 0;
  const pool = [];

  function cell(file, key) {
    if (!file) return "…";
    if (key === "size") return bytes(file.size);
    if (key === "rows") return count(file.rows);
    if (key === "created") return when(file.created);
    return String(file[key]);
  }

  function paint(force = false) {
    const from = Math.max(0, Math.floor(view.scrollTop / ROW) - 4);
    const to = Math.min(first.total, from + Math.ceil(view.clientHeight / ROW) + 8);
    if (!force && from === drawn) return;
    drawn = from;
    want(from, to);
    while (pool.length < to - from) {
      const cells = columns.map(([key]) => h("span", { class: `cell ${key}`, role: "cell" }));
      const line = h("div", { class: "line", role: "row" }, cells);
      pool.push([line, cells]);
      rows.append(line);
    }
    pool.forEach(([line, cells], place) => {
      const n = from + place;
      line.hidden = n >= to;
      if (line.hidden) return;
      const file = (pages.get(Math.floor(n / PAGE)) || [])[n % PAGE];
      line.setAttribute("aria-rowindex", n + 2);
      columns.forEach(([key], m) => {
        const text = plain(cell(file, key));
        if (cells[m].textContent !== text) cells[m].textContent = text;
      });
    });
    rows.style.setProperty("transform", `translateY(${from * ROW}px)`);
  }

  // What is only passed on the way is not asked for.
  function want(from, to) {
    clearTimeout(asking);
    asking = setTimeout(() => {
      for (let page = Math.floor(from / PAGE); page <= Math.floor(Math.max(from, to - 1) / PAGE); page += 1) fetchPage(page);
    }, 60);
  }

  async function fetchPage(page) {
    if (asked.has(page)) return;
    asked.add(page);
    try {
      const found = await ask("files", { ...table.place, snapshot: first.snapshot, ...own, ...order, start: page * PAGE, count: PAGE });
      pages.set(page, found.files);
      if (view.isConnected) paint(true);
    } catch { asked.delete(page); }
  }

  let waiting = false;
  view.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; paint(); });
  }, { passive: true });
  new ResizeObserver(() => paint(true)).observe(view);
  view.style.setProperty("height", `${Math.min(first.total, 12) * ROW + 2}px`);
  const heads = columns.map(([key, word]) => {
    const sorted = order.sort === key;
    return h("span", { class: `cell ${key}`, role: "columnheader", "aria-sort": sorted ? (order.descending ? "descending" : "ascending") : "none" },
      button(`${word}${sorted ? (order.descending ? " ↓" : " ↑") : ""}`, () => {
        if (sorted) order.descending = !order.descending; else Object.assign(order, { sort: key, descending: key !== "name" && key !== "partition" });
        refresh();
      }, { class: "sort" }));
  });
  const widths = (without) => columns.filter(([key]) => !without.includes(key)).map(([, , wide]) => wide).join(" ");
  const style = { "--columns": widths([]), "--columns-middle": widths(["level", "rows", "created"]), "--columns-narrow": widths(["level", "rows", "created", "partition"]) };
  return [h("div", { class: "listing", role: "table", "aria-label": "Files", "aria-rowcount": first.total + 1, style }, h("div", { role: "rowgroup" }, h("div", { class: "line heads", role: "row" }, heads)), view), h("p", { class: "hint" }, plural(first.total, "file"))];
}
