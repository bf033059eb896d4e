// Partitions x buckets: a cell a bucket, darker where there is more.

import { ask } from "./api.js";
import { RAMP, block, field, text } from "./canvas.js";
import { fill, h, plain, select } from "./dom.js";
import { brief, briefly, bytes, count, plural, times } from "./format.js";
import { panel } from "./panel.js";

const ROW = 24;
const HEAD = 22;
const MEASURES = {
  bytes: ["Bytes", bytes], rows: ["Rows", brief], files: ["Files", count], runs: ["Runs", count], skew: ["Skew", times],
};

const ORDERS = { name: "name", most: "largest first" };

export function heatPanel(table) {
  let measure = table.state.by in MEASURES ? table.state.by : "bytes";
  let order = table.state.order in ORDERS ? table.state.order : "name";
  let last = null;
  const made = panel({
    name: "heat",
    title: "Partitions and buckets",
    wide: true,
    caption: "One row per partition, one cell per bucket; a stronger colour means more. Good: one shade in a row, few runs. Choose a cell to see its files.",
    about: {
      what: "A row is a partition, a cell one of its buckets; the stronger its shade, the more it holds. Runs are the sorted runs that a read merges; skew is a bucket's bytes over the mean of its partition.",
      good: "Cells of one row in about the same shade: a job of many tasks then ends all at once. Few runs: reads merge little. Skew near 1.",
      act: "One strong cell among pale ones: a few keys hold much of the data, choose another bucket key. Buckets too large or too small: rescale the partition. Many runs: compact.",
    },
    controls: [select("Shade by", Object.entries(MEASURES).map(([key, [word]]) => [key, word]), measure, (value) => {
      measure = value;
      table.choose({ by: value === "bytes" ? null : value });
      if (last && order === "name") last(); else made.refresh(true);
    }), select("Order", Object.entries(ORDERS), order, (value) => {
      order = value;
      table.choose({ order: value === "name" ? null : value });
      made.refresh(true);
    })],
    load: async (signal) => (await table.ready, ask("heat", { ...table.place, snapshot: table.snapshot }, signal)),
    empty: (data) => data.partitions.length === 0 && "No files: the table is empty here.",
    draw: (data) => {
      if (order === "most") data.partitions.sort((a, b) => largest(b, measure) - largest(a, measure));
      const [parts, again] = drawn(table, data, () => measure);
      last = again;
      return parts;
    },
  });
  return made;
}

const largest = (part, measure) => (measure === "runs" ? Math.max(...part.cells.map((cell) => cell.runs)) : part[measure]);

function layout(data) {
  if (data.partitions.length > 1) {
    const columns = [...new Set(data.partitions.flatMap((part) => part.cells.map((cell) => cell.bucket)))].sort((a, b) => a - b);
    const place = new Map(columns.map((bucket, n) => [bucket, n]));
    const lines = data.partitions.map((part) => {
      const line = new Array(columns.length).fill(null);
      for (const cell of part.cells) line[place.get(cell.bucket)] = { part, cell };
      return { label: part.text, part, line };
    });
    return { lines, heads: columns.map((n) => (n === -2 ? "pending" : String(n))) };
  }
  const part = data.partitions[0];
  const wide = part.cells.length <= 32 ? part.cells.length : 32;
  const lines = [];
  for (let n = 0; n < part.cells.length; n += wide) {
    const line = part.cells.slice(n, n + wide).map((cell) => ({ part, cell }));
    lines.push({ label: part.text || (part.cells.length > wide ? `from ${part.cells[n].bucket}` : "all rows"), part, line });
  }
  return { lines, heads: part.cells.length <= wide ? part.cells.map((cell) => (cell.bucket === -2 ? "pending" : String(cell.bucket))) : [] };
}

// The bucket of the address, else the one of the most bytes.
function found(table, lines) {
  let best = null;
  lines.forEach(({ line }, row) => line.forEach((item, column) => {
    if (!item) return;
    const chosen = table.chosen !== null && item.part.key === table.chosen.partition && item.cell.bucket === table.chosen.bucket;
    const rank = chosen ? Infinity : item.cell.bytes;
    if (!best || rank > best.rank) best = { rank, row, column };
  }));
  return { row: best.row, column: best.column };
}

function drawn(table, data, measure) {
  const { lines, heads } = layout(data);
  if (table.unbucketed) heads.length = 0;
  const columns = Math.max(...lines.map((one) => one.line.length));
  const all = lines.flatMap((one) => one.line.filter(Boolean).map((item) => item.cell));
  const longest = Math.max(...lines.map((one) => one.label.length));
  const at = { ...found(table, lines), over: "" };
  const details = h("div", { class: "details", "aria-live": "polite" });
  const legend = h("div", { class: "row legend" });
  const view = field(paint, {
    tabindex: "0", role: "application", "aria-roledescription": "heat map", data: { figure: "heat" },
    "aria-label": `Heat map of ${plural(data.total_partitions, "partition")}. Arrow keys move, Enter shows the files of a bucket`,
  });
  let steps = [];
  let labels = 110;
  let wide = 30;

  function measured() {
    const key = measure();
    const values = all.map((cell) => cell[key]).sort((a, b) => a - b);
    const [low, high] = [values[0], values[values.length - 1]];
    const even = key === "skew" || key === "runs" || key === "files" || high < low * 8;
    const [begin, end] = [even ? 0 : low, key === "skew" ? Math.max(2, high) : high];
    steps = Array.from({ length: RAMP - 1 }, (_, n) => {
      const part = (n + 1) / RAMP;
      return even ? end * part : Math.max(1, low) * (high / Math.max(1, low)) ** part;
    });
    const say = MEASURES[key][1];
    fill(legend, h("span", {}, MEASURES[key][0]), h("span", {}, say(begin)),
      h("span", { class: "ramp", "aria-hidden": "true" }, Array.from({ length: RAMP }, (_, n) => h("i", { class: `ramp-${n}` }))), h("span", {}, say(end)), !even && h("span", {}, "(by factors)"),
      h("span", { class: "spring" }), h("span", {}, `${plural(data.files, "file")} · ${briefly(data.rows, "row")} · ${bytes(data.bytes)}`));
  }
  const shade = (value) => { let n = 0; while (n < steps.length && value > steps[n]) n += 1; return n; };

  function size(width) {
    labels = Math.min(Math.max(64, longest * 6.4 + 18), Math.max(110, width * 0.3), 260);
    wide = Math.max(18, Math.min(84, (width - labels - 4) / columns));
  }

  function paint(context, width, height, c, left, top) {
    size(width);
    const key = measure();
    const from = Math.max(0, Math.floor((top - HEAD) / ROW));
    const to = Math.min(lines.length, Math.ceil((top + height) / ROW));
    const first = Math.max(0, Math.floor(left / wide));
    const end = Math.min(columns, Math.ceil((left + width) / wide));
    for (let r = from; r < to; r += 1) {
      const y = HEAD + r * ROW - top;
      for (let n = first; n < end; n += 1) {
        const item = lines[r].line[n];
        const x = labels + n * wide - left;
        if (!item) {
          context.fillStyle = c.line;
          context.fillRect(x + wide / 2 - 2, y + ROW / 2, 4, 1);
        } else {
          const n2 = shade(item.cell[key]);
          context.fillStyle = c.ramp[n2];
          block(context, x + 1, y + 1, wide - 2, ROW - 2, 3);
          context.fill();
          if (item.cell.pending) { context.strokeStyle = c.warn; context.setLineDash([3, 2]); context.stroke(); context.setLineDash([]); }
          if (wide > 52) text(context, MEASURES[key][1](item.cell[key]), x + wide / 2, y + ROW / 2 + 0.5, wide - 6, n2 > c.turn ? c.paper : c.ink, "center");
        }
        if (r === at.row && n === at.column) {
          context.strokeStyle = c.focus;
          context.lineWidth = 2;
          block(context, x + 1, y + 1, wide - 2, ROW - 2, 3);
          context.stroke();
          context.lineWidth = 1;
        }
      }
    }
    context.fillStyle = c.paper;
    context.fillRect(0, 0, labels, height);
    for (let r = from; r < to; r += 1) {
      text(context, lines[r].label, labels - 10, HEAD + r * ROW + ROW / 2 - top, labels - 12, r === at.row ? c.ink : c.muted, "right");
    }
    context.fillStyle = c.paper;
    context.fillRect(0, 0, width, HEAD);
    let taken = labels;
    for (let n = first; n < end && heads.length; n += 1) {
      const x = labels + n * wide - left + wide / 2;
      const own = context.measureText(heads[n]).width;
      if (x - own / 2 < taken) continue;
      text(context, heads[n], x, HEAD / 2, undefined, n === at.column ? c.ink : c.muted, "center");
      taken = x + own / 2 + 8;
    }
    if (!table.unbucketed) text(context, "bucket", labels - 10, HEAD / 2, undefined, c.muted, "right");
  }

  function tell() {
    const item = lines[at.row].line[at.column];
    if (!item) { fill(details, h("p", { class: "muted" }, `${lines[at.row].label}: no such bucket here.`)); return; }
    const { part, cell } = item;
    fill(details,
      h("div", { class: "headline" }, h("strong", {}, part.text || "All rows"), h("span", {}, cell.pending ? "rows that wait for their bucket" : table.unbucketed ? "no buckets" : `bucket ${cell.bucket} of ${part.buckets}`)),
      h("dl", { class: "pairs" }, [["Rows", count(cell.rows)], ["Bytes", bytes(cell.bytes)], ["Files", count(cell.files)], data.keyed && !cell.pending && ["Sorted runs", count(cell.runs)], part.buckets > 1 && ["Skew", `${times(cell.skew)} of the mean bucket`], part.buckets > 1 && [part.text ? "Its partition" : "All buckets", `${bytes(part.bytes)}, the largest ${times(part.skew)} of the mean`]].filter(Boolean)
        .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
  }

  function move(row, column, show = true) {
    at.row = Math.max(0, Math.min(lines.length - 1, row));
    at.column = Math.max(0, Math.min(columns - 1, column));
    const [x, y] = [at.column * wide, at.row * ROW];
    const box = view.box;
    if (show) {
      if (y < box.scrollTop) box.scrollTop = y;
      if (y + HEAD + ROW > box.scrollTop + box.clientHeight) box.scrollTop = y + HEAD + ROW - box.clientHeight;
      if (x < box.scrollLeft) box.scrollLeft = x;
      if (x + labels + wide > box.scrollLeft + box.clientWidth) box.scrollLeft = x + labels + wide - box.clientWidth;
    }
    tell();
    view.redraw();
  }

  function open(jump) {
    const item = lines[at.row].line[at.column];
    if (item) table.bucket(item.part.key, item.cell.bucket, { jump });
  }

  function under(event) {
    const box = view.box.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const row = Math.floor((y + view.box.scrollTop - HEAD) / ROW);
    const column = Math.floor((x + view.box.scrollLeft - labels) / wide);
    return y >= HEAD && x >= labels && row >= 0 && column >= 0 && row < lines.length && column < columns ? [row, column] : null;
  }

  view.box.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(view.box.clientHeight / ROW) - 2);
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], PageUp: [-page, 0], PageDown: [page, 0], Home: [0, -columns], End: [0, columns] };
    if (event.key in moves) { const [r, n] = moves[event.key]; move(at.row + r, at.column + n); }
    else if (event.key === "Enter" || event.key === " ") open(true);
    else return;
    event.preventDefault();
  });
  view.box.addEventListener("click", (event) => {
    const place = under(event);
    if (place) { move(...place, false); open(false); }
  });
  view.box.addEventListener("pointermove", (event) => {
    const place = under(event);
    const item = place && lines[place[0]].line[place[1]];
    const told = item ? `${item.part.text || "All rows"}${item.cell.pending || table.unbucketed ? "" : `, bucket ${item.cell.bucket}`}\n${bytes(item.cell.bytes)}, ${plural(item.cell.rows, "row")}, ${plural(item.cell.files, "file")}${data.keyed ? `, ${plural(item.cell.runs, "run")}` : ""}` : "";
    if (told !== at.over) { at.over = told; view.box.title = plain(told); }
  });
  const fitted = () => {
    size(view.box.clientWidth || 600);
    view.resize(labels + columns * wide, HEAD + lines.length * ROW);
    if (!placed && view.box.clientWidth) { placed = true; move(at.row, at.column); }
  };
  view.box.style.setProperty("height", `${Math.min(HEAD + lines.length * ROW + 14, 420)}px`);
  new ResizeObserver(fitted).observe(view.box);
  const again = () => { measured(); tell(); view.redraw(); };
  again();
  let placed = false;
  queueMicrotask(() => {
    const item = lines[at.row].line[at.column];
    if (item) table.bucket(item.part.key, item.cell.bucket, { proposed: true });
  });
  const left = [data.left_out > 0 && `${plural(data.left_out, "partition")}`, data.left_out_buckets > 0 && plural(data.left_out_buckets, "bucket")].filter(Boolean);
  return [[legend, view.box, details, left.length > 0 && h("p", { class: "hint" }, `Not shown: ${left.join(" and ")} that hold no more than those shown.`)], again];
}
