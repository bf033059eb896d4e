// One bucket to scale: a lane a sorted run, a block a file, as wide as the keys that it spans and as tall as it is large.

import { ask } from "./api.js";
import { block, field, levelShade, text } from "./canvas.js";
import { fill, h, plain } from "./dom.js";
import { bytes, count, plural, when } from "./format.js";
import { panel } from "./panel.js";

const LANE = 22;
const GAP = 10;
const HEAD = 20;

export function levelsPanel(table) {
  return panel({
    name: "levels",
    title: "Levels of one bucket",
    wide: true,
    caption: "Choose a cell above.",
    about: {
      what: "The files of one bucket. In a table with a key each lane is a sorted run: level 0 on top, the newest first, the oldest level at the bottom. A block spans its file's first to last key; the taller, the larger; its colour is its level. Without a key, blocks are files as wide as their bytes.",
      good: "Few lanes, and most bytes in the lowest: a read of a key looks into one block of each lane.",
      act: "Lanes that pile up in level 0 mean that compaction lags: compact the table, or give compaction a job of its own.",
    },
    load: async (signal) => (await table.ready, table.chosen ? ask("levels", { ...table.place, snapshot: table.snapshot, ...table.chosen }, signal) : null),
    empty: (data) => (!data ? (table.overview?.files === 0 ? "No files: the table is empty here." : "Choose a bucket in the figure above.") : data.levels.length === 0 && "This bucket has no files."),
    draw: (data, { note, section }) => drawn(table, data, note, section.querySelector("h2")),
  });
}

function lanes(data, width) {
  const keyed = data.scale !== null;
  const found = [];
  for (const level of data.levels) {
    const own = data.files.filter((file) => file.level === level.level);
    const title = `${keyed ? `Level ${level.level} · ` : ""}${plural(level.files, "file")} · ${bytes(level.size)}`;
    if (keyed) {
      const runs = new Map();
      for (const file of own) { if (!runs.has(file.run)) runs.set(file.run, []); runs.get(file.run).push(file); }
      [...runs.keys()].sort((a, b) => a - b).forEach((run, n) => found.push({ title: n ? "" : title, level: level.level, blocks: runs.get(run).map((file) => ({ file, from: file.low, to: file.high })) }));
    } else {
      found.push(...packed(own, title, level.level, width));
    }
  }
  return found;
}

// Files side by side, as wide as their bytes, over several lanes where there are many.
function packed(files, title, level, width) {
  const most = Math.max(...files.map((file) => file.size), 1);
  const whole = files.reduce((sum, file) => sum + file.size, 0) || 1;
  const rows = Math.max(1, Math.ceil(files.length * 8 / Math.max(200, width)));
  const scale = Math.max(rows / whole, 0.004 / most);
  const found = [{ title, level, blocks: [] }];
  let x = 0;
  for (const file of files) {
    const wide = Math.max(file.size * scale, 0.006);
    if (x + wide > 1.0001 && x > 0) { found.push({ title: "", level, blocks: [] }); x = 0; }
    found[found.length - 1].blocks.push({ file, from: x, to: Math.min(1, x + wide) });
    x += wide;
  }
  return found;
}

function drawn(table, data, note, heading) {
  fill(heading, data.scale ? "Levels of one bucket" : data.bucket === -2 ? "Pending rows" : table.unbucketed ? (data.partition ? "Files of one partition" : "Files to scale") : "Files of one bucket");
  fill(note, h("b", {}, data.partition || "All rows"), table.unbucketed ? ": " : `, ${data.bucket === -2 ? "rows that wait for their bucket" : `bucket ${data.bucket}`}: `,
    data.scale ? `${plural(data.runs, "sorted run")}, that a read merges; from ${data.trigger} on they are compacted. Good: few runs, most bytes in the deepest level.` : `${plural(data.files.length + data.left_out, "file")}, ${data.files.length === 1 ? "" : "each "}as wide as its bytes.`);
  const rows = lanes(data, 800);
  const order = rows.flatMap((lane, r) => lane.blocks.map((one, n) => [r, n]));
  const largest = Math.max(...data.files.map((file) => file.size), 1);
  const deepest = Math.max(0, ...data.levels.map((level) => level.level));
  const whole = Math.max(1, ...data.levels.map((level) => level.size));
  const details = h("div", { class: "details", "aria-live": "polite" });
  let place = 0;
  let side = 0;
  let tops = [];
  let tall = 0;
  // Where lanes lie: names of levels beside them, or above them where it is narrow.
  function arrange(width) {
    side = width > 560 ? 190 : 0;
    tops = [];
    tall = HEAD;
    rows.forEach((lane, r) => {
      if (r && lane.level !== rows[r - 1].level) tall += GAP;
      if (lane.title && !side) tall += 18;
      tops.push(tall);
      tall += LANE;
    });
  }
  const sums = new Map(data.levels.map((level) => [level.level, level]));

  const view = field((context, width, height, c, left, top) => {
    const room = width - side - 8;
    text(context, data.scale === "value" ? `keys by value: ${data.key.join(", ")}` : data.scale === "rank" ? `keys in order: ${data.key.join(", ")}` : "width: bytes of a file", side, 9 - top, room, c.muted);
    rows.forEach((lane, r) => {
      const at = tops[r] - top;
      if (at < -LANE || at > height) return;
      if (lane.title) {
        const line = side ? at + LANE / 2 : at - 9;
        text(context, lane.title, 0, line, side ? side - 12 : room, c.muted);
        const n = data.scale ? levelShade(lane.level, deepest) : 5;
        context.fillStyle = n < 0 ? c.amber : c.ramp[n];
        if (side) context.fillRect(0, at + LANE - 2, Math.max(1, sums.get(lane.level).size / whole * (side - 16)), 3);
      }
      context.fillStyle = c.raised;
      block(context, side, at + 2, room, LANE - 4, 3);
      context.fill();
      for (const one of lane.blocks) {
        const x = side + one.from * room;
        const wide = Math.max(3, (one.to - one.from) * room - 1);
        const n = data.scale ? levelShade(lane.level, deepest) : 5;
        const tall = data.scale ? Math.max(5, one.file.size / largest * (LANE - 2)) : LANE - 4;
        context.fillStyle = n < 0 ? c.amber : c.ramp[n];
        block(context, Math.min(x, side + room - wide), at + (LANE - tall) / 2, wide, tall, 3);
        context.fill();
        if (wide > 84 && tall >= 13) text(context, bytes(one.file.size), Math.min(x, side + room - wide) + 7, at + LANE / 2 + 0.5, wide - 10, n < 0 ? c["on-amber"] : n > c.turn ? c.paper : c.ink);
      }
    });
    const chosen = order[place];
    if (chosen) {
      const one = rows[chosen[0]].blocks[chosen[1]];
      const wide = Math.max(3, (one.to - one.from) * room - 1);
      context.strokeStyle = c.focus;
      context.lineWidth = 2;
      block(context, Math.min(side + one.from * room, side + room - wide), tops[chosen[0]] - top + 2, wide, LANE - 4, 3);
      context.stroke();
      context.lineWidth = 1;
    }
  }, { tabindex: "0", role: "application", "aria-roledescription": "levels", "aria-label": `Levels of bucket ${data.bucket}: ${data.levels.map((l) => `level ${l.level} ${plural(l.files, "file")}`).join(", ")}. Arrow keys move`, data: { figure: "levels" } });
  arrange(800);
  new ResizeObserver(() => {
    arrange(view.box.clientWidth);
    view.box.style.setProperty("height", `${Math.min(tall + 8, 400)}px`);
    view.resize(view.box.clientWidth - 2, tall);
  }).observe(view.box);

  function choose(n) {
    place = Math.max(0, Math.min(order.length - 1, n));
    const [r, b] = order[place];
    const box = view.box;
    if (tops[r] < box.scrollTop + HEAD) box.scrollTop = tops[r] - HEAD;
    if (tops[r] + LANE > box.scrollTop + box.clientHeight) box.scrollTop = tops[r] + LANE - box.clientHeight;
    tell(rows[r].blocks[b].file);
    view.redraw();
  }

  function tell(file) {
    const pairs = [data.scale && ["Level", `${file.level}`], ["Bytes", bytes(file.size)], ["Rows", count(file.rows)], file.deletes ? ["Deletes", count(file.deletes)] : null,
      file.min_key !== null && ["Keys", [h("span", { class: "mono" }, file.min_key), " … ", h("span", { class: "mono" }, file.max_key)]], ["Created", `${when(file.created)}${file.source ? ` by ${file.source === "compact" ? "compaction" : "a write"}` : ""}`], ["Schema", String(file.schema_id)]].filter(Boolean);
    fill(details, h("div", { class: "headline" }, h("strong", { class: "mono cut", title: file.name }, file.name)),
      h("dl", { class: "pairs" }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
  }

  const vertical = (by) => {
    const [r, b] = order[place];
    const middle = rows[r].blocks[b];
    const to = Math.max(0, Math.min(rows.length - 1, r + by));
    const nearest = rows[to].blocks.reduce((best, one, n) => (Math.abs(one.from - middle.from) < Math.abs(rows[to].blocks[best].from - middle.from) ? n : best), 0);
    choose(order.findIndex(([x, n]) => x === to && n === nearest));
  };
  view.box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") choose(place - 1);
    else if (event.key === "ArrowRight") choose(place + 1);
    else if (event.key === "ArrowUp") vertical(-1);
    else if (event.key === "ArrowDown") vertical(1);
    else if (event.key === "Home") choose(0);
    else if (event.key === "End") choose(order.length - 1);
    else return;
    event.preventDefault();
  });
  function under(event) {
    const box = view.box.getBoundingClientRect();
    const [x, at] = [event.clientX - box.left - side, event.clientY - box.top + view.box.scrollTop];
    const room = view.box.clientWidth - side - 8;
    const r = tops.findIndex((t) => at >= t && at < t + LANE);
    const n = r < 0 ? -1 : rows[r].blocks.findIndex((one) => x / room >= one.from - 0.004 && x / room <= one.to + 0.004);
    return n < 0 ? null : [r, n];
  }
  view.box.addEventListener("click", (event) => {
    const place = under(event);
    if (place) choose(order.findIndex(([a, b]) => a === place[0] && b === place[1]));
  });
  view.box.addEventListener("pointermove", (event) => {
    const place = under(event);
    const file = place && rows[place[0]].blocks[place[1]].file;
    const told = file ? plain(`Level ${file.level}: ${bytes(file.size)}, ${plural(file.rows, "row")}${file.min_key === null ? "" : `\n${file.min_key} … ${file.max_key}`}`) : "";
    if (view.box.title !== told) view.box.title = told;
  });
  if (order.length) tell(rows[order[0][0]].blocks[order[0][1]].file);
  return [view.box, details, data.left_out > 0 && h("p", { class: "hint" }, `${plural(data.left_out, "smaller file")} not shown.`)];
}
