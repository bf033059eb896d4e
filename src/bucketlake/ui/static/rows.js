// Rows: a few of them as of any snapshot, and what differs between two snapshots.

import { ask } from "./api.js";
import { fill, h, select } from "./dom.js";
import { ago, bytes, count, plural } from "./format.js";
import { panel } from "./panel.js";

const label = (one) => `${one.snapshot} · ${one.words} · ${ago(one.time)}${one.tags.length ? ` · tag ${one.tags.join(", ")}` : ""}`;

function snapshots(table) {
  return table.commits.slice(-300).reverse();
}

export function samplePanel(table) {
  let limit = 50;
  const made = panel({
    name: "sample",
    title: "Sample rows",
    wide: true,
    caption: "Some rows as a reader gets them, in no particular order.",
    about: {
      what: "Rows as a reader gets them: merged by key, deletes applied. With a snapshot chosen, as they were then.",
      good: "What you expect of your data.",
      act: "In SQL: SELECT * FROM t VERSION AS OF n. In Python: table.to_arrow(scan_snapshot_id=n).",
    },
    controls: [h("span", { class: "slot" }), select("Rows", [[20, "20"], [50, "50"], [200, "200"], [500, "500"]], limit, (value) => { limit = Number(value); made.refresh(); })],
    load: async (signal) => (await table.ready, ask("sample", { ...table.place, snapshot: table.snapshot, limit }, signal)),
    empty: (data) => data.rows.length === 0 && (data.snapshot === null ? "Nothing was committed yet." : "No rows: the table is empty here."),
    draw: (data, { note }) => {
      fill(note, data.snapshot === null ? "" : `${data.more ? "Some" : "All"} rows as of snapshot ${data.snapshot}, as a reader gets them${data.more ? ", in no particular order; there are more" : ""}.`);
      return grid(data, table, "Sample rows");
    },
  });
  const offer = () => fill(made.querySelector(".slot"), select("As of", [["", "the newest"], ...snapshots(table).map((one) => [one.snapshot, label(one)])], table.snapshot || "", (value) => table.look(value ? Number(value) : null)));
  table.watch("commits", offer);
  offer();
  return made;
}

// Which cells of a row differ from those of the row before it, which it replaces.
function differing(data, n) {
  if (data.rows[n][0] !== "+U" || n === 0 || data.rows[n - 1][0] !== "-U") return new Set();
  return new Set(data.rows[n].map((value, m) => (m && value !== data.rows[n - 1][m] ? m : -1)));
}

function grid(data, table, title, kinds = false) {
  const keys = new Set([...(table.overview?.primary_key || []), ...(table.overview?.partition_key || [])]);
  return [
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}, table` },
      h("table", { class: "grid", "aria-label": title },
        h("thead", {}, h("tr", {}, data.columns.map((name, n) => h("th", { scope: "col", class: data.numeric[n] ? "number" : "", title: name.length > 40 ? name : null }, kinds && n === 0 ? "Change" : name, keys.has(name) && !(kinds && n === 0) && h("span", { class: "keysign", title: "key", role: "img", "aria-label": "key" }, " ●"))))),
        h("tbody", {}, data.rows.map((row, place) => [row, kinds ? differing(data, place) : new Set()]).map(([row, changed]) => h("tr", { class: kinds ? kind(row[0]) : "" }, row.map((value, n) => h("td", { class: `${data.numeric[n] ? "number" : ""}${changed.has(n) ? " differs" : ""}` }, kinds && n === 0 ? WORDS[value] || value : value === null ? h("i", { class: "null" }, "null") : value.length > 40 ? h("span", { title: value }, value) : value))))))),
    data.left_out_columns > 0 && h("p", { class: "hint" }, `${plural(data.left_out_columns, "more column")} not shown.`),
  ];
}

const WORDS = { "+I": "+ added", "-D": "− deleted", "-U": "− before", "+U": "+ after" };
const kind = (word) => (word && word.startsWith("+") ? "came" : "went");

export function differencePanel(table) {
  let [before, after] = [table.number("from"), table.number("to")];
  const made = panel({
    name: "difference",
    title: "Difference between two snapshots",
    wide: true,
    caption: "Files and rows that differ, whatever commits came between. Choose two snapshots.",
    about: {
      what: "Files that one snapshot has and the other has not, and rows that were added, deleted or changed from the one to the other, whatever commits came between. Of a changed row both states are shown, the cells that differ marked. Rows count from their commit on, also where batch reads see them only after compaction.",
      good: "A compaction changes files but no rows.",
      act: "To have the old rows back: CALL sys.rollback, or read VERSION AS OF and write what you need.",
    },
    controls: [h("span", { class: "slot" })],
    load: (signal) => (before && after ? ask("difference", { ...table.place, before, after, limit: 100 }, signal) : Promise.resolve(null)),
    empty: (data) => (!data ? (["Nothing was committed yet.", "There is only one snapshot."][table.commits.length] || "Choose two snapshots above.") : data.low === data.high && "These are one and the same snapshot."),
    draw: (data, { note }) => {
      const files = data.files;
      fill(note, `What differs from snapshot ${data.low} to ${data.high}, whatever commits came between.`);
      const swap = files.before > files.after;
      const [came, went] = swap ? ["removed", "added"] : ["added", "removed"];
      return [
        h("dl", { class: "pairs" }, [["Files added", `${count(files[`${came}_files`])}, ${bytes(files[`${came}_bytes`])}`], ["Files removed", `${count(files[`${went}_files`])}, ${bytes(files[`${went}_bytes`])}`], ["Files unchanged", count(files.same_files)], files.moved_files && ["On another level", count(files.moved_files)]]
          .filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
        data.why ? h("p", { class: "nothing" }, data.why)
          : data.rows.rows.length === 0 ? h("p", { class: "nothing" }, data.whole ? "No row differs." : "No row differs among those compared; there are too many to compare them all.")
            : [grid(data.rows, table, "Rows that differ", true), (data.rows.more || !data.whole) && h("p", { class: "hint" }, `The first ${count(data.rows.rows.length)}; there ${data.rows.more ? "are" : "may be"} more.`)],
      ];
    },
  });
  const chose = (from, to) => {
    [before, after] = [from, to];
    table.choose({ from, to });
    made.refresh();
  };
  const offer = () => {
    const known = snapshots(table);
    for (const number of [before, after]) if (number && known.length && !known.some((one) => one.snapshot === number)) known.push({ snapshot: number, words: "older", time: null, tags: [] });
    if (!(before && after) && known.length > 1) [before, after] = [known[1].snapshot, known[0].snapshot];
    const choices = known.map((one) => [one.snapshot, label(one)]);
    fill(made.querySelector(".slot"),
      select("From", choices, before, (value) => chose(Number(value), after)),
      select("to", choices, after, (value) => chose(before, Number(value))));
  };
  table.watch("commits", () => { offer(); if (["drawn", "empty"].includes(made.dataset.state)) made.refresh(); });
  offer();
  return made;
}
