// Bytes over time: by level, stacked; and how much is written, kept and merged for each byte. One mark goes over both, and
// the figures below are of where it stands.

import { ask } from "./api.js";
import { chart, levelShade } from "./canvas.js";
import { fill, h, s, unique } from "./dom.js";
import { bytes, ends, times, when } from "./format.js";
import { panel } from "./panel.js";

const [HEIGHT, FOOT, HEAD] = [170, 22, 16];
const LINES = [["space", "teal"], ["overlap", "grey"], ["write", "orange"]];

export function amplificationPanel(table) {
  return panel({
    name: "amplification",
    title: "Write and space amplification",
    wide: true,
    caption: "What compaction and history cost over the commits shown. Good: write below 8×, space near 1× after expiry, most bytes in the deepest level.",
    about: {
      what: "Left: the table's bytes by level after each snapshot, the deepest level at the bottom. Right: bytes written for each byte that came in (write), bytes kept for each byte that is live (space), and, with a key, live bytes over those of the deepest level (overlap). Write and space begin with the first commit shown.",
      good: "Write amplification of 2 to 8 for a table with a key. Space near 1 after expiry. Overlap near 1: reads merge little.",
      act: "Write too high: compact less often (num-sorted-run.compaction-trigger), or let one job compact. Space too high: expire snapshots, drop tags that nobody needs. Overlap too high: compact. Move with ← and →.",
    },
    load: (signal) => ask("amplification", { ...table.place, limit: table.limit }, signal),
    empty: (data) => data.moments.length === 0 && "Nothing was committed yet.",
    draw: drawn,
  });
}

function drawn(data) {
  const moments = data.moments;
  const view = { at: moments.length - 1, rules: new Set() };
  const figures = h("dl", { class: "pairs" });
  const box = h("div", {
    class: "pair-charts", tabindex: "0", role: "slider", "aria-label": "Amplification after a snapshot", "aria-orientation": "horizontal",
    "aria-valuemin": moments[0].snapshot, "aria-valuemax": moments[moments.length - 1].snapshot, data: { figure: "amplification-cursor" },
  }, stacked(moments, view), lines(moments, view));

  function move(n) {
    view.at = Math.max(0, Math.min(moments.length - 1, n));
    const one = moments[view.at];
    for (const rule of view.rules) if (rule.isConnected) place(rule, view.at, moments); else view.rules.delete(rule);
    box.setAttribute("aria-valuenow", one.snapshot);
    box.setAttribute("aria-valuetext", `Snapshot ${one.snapshot}: write ${times(one.write)}, space ${times(one.space)}, ${bytes(one.live)} live`);
    fill(figures, [["After snapshot", [`${one.snapshot}`, h("span", { class: "muted" }, ` · ${when(one.time)}`)]], ["Written", bytes(one.written)], ["Rewritten by compaction", bytes(one.rewritten)], ["Write amplification", times(one.write)], ["Live", bytes(one.live)], ["Kept with history", bytes(one.held)], ["Space amplification", times(one.space)], one.overlap !== null && ["Overlap", times(one.overlap)]]
      .filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  }

  box.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -moments.length, End: moments.length };
    if (!(event.key in steps)) return;
    move(view.at + steps[event.key]);
    event.preventDefault();
  });
  box.addEventListener("pointermove", (event) => {
    const own = event.target.closest?.("svg");
    if (!own) return;
    const area = own.getBoundingClientRect();
    move(Math.round((event.clientX - area.left) / area.width * (moments.length - 1)));
  });
  box.addEventListener("pointerleave", () => move(moments.length - 1));
  move(view.at);
  return [box, figures];
}

const across = (n, moments, width) => (moments.length > 1 ? n / (moments.length - 1) * width : width);

function place(rule, n, moments) {
  const x = across(n, moments, Number(rule.dataset.width)).toFixed(1);
  rule.setAttribute("x1", x);
  rule.setAttribute("x2", x);
}

function mark(moments, view, width) {
  const rule = s("line", { y1: HEAD - 2, y2: HEIGHT - FOOT, class: "rule", data: { width: String(width) } });
  place(rule, view.at, moments);
  view.rules.add(rule);
  return rule;
}

function stacked(moments, view) {
  const levels = [...new Set(moments.flatMap((one) => Object.keys(one.levels).map(Number)))].sort((a, b) => b - a);
  const colour = (level) => `level-${levelShade(level, levels[0])}`;
  return h("figure", {}, chart((width) => areas(moments, levels, colour, width, view)),
    h("figcaption", {}, "Bytes by level ", levels.slice(0, 6).map((level) => h("span", { class: "swatch" }, h("i", { class: colour(level) }), ` level ${level}`))));
}

function areas(moments, levels, colour, width, view) {
  const most = Math.max(1, ...moments.map((one) => one.live));
  const room = HEIGHT - FOOT - HEAD;
  const sums = moments.map(() => 0);
  const drawn = levels.map((level) => {
    const below = moments.map((one, n) => sums[n]);
    moments.forEach((one, n) => { sums[n] += one.levels[level] || 0; });
    const y = (value) => HEIGHT - FOOT - value / most * room;
    const start = moments.length > 1 ? [] : [`M0,${y(sums[0])}`];
    const up = moments.map((one, n) => `${n || start.length ? "L" : "M"}${across(n, moments, width).toFixed(1)},${y(sums[n]).toFixed(1)}`);
    const down = moments.map((one, n) => `L${across(moments.length - 1 - n, moments, width).toFixed(1)},${y(below[moments.length - 1 - n]).toFixed(1)}`);
    const end = moments.length > 1 ? [] : [`L0,${y(below[0])}`];
    return s("path", { d: [...start, ...up, ...down, ...end, "Z"].join(""), class: `area ${colour(level)}` });
  });
  const [first, last] = [moments[0], moments[moments.length - 1]];
  return picture(width, `Bytes by level: ${bytes(first.live)} after snapshot ${first.snapshot}, ${bytes(last.live)} after snapshot ${last.snapshot}`, "amplification",
    drawn, axis(moments, width), s("text", { x: 2, y: 10, class: "muted" }, bytes(most)), mark(moments, view, width));
}

function lines(moments, view) {
  const keyed = moments.some((one) => one.overlap !== null);
  const own = LINES.filter(([key]) => key !== "overlap" || keyed);
  return h("figure", {}, chart((width) => curves(moments, own, width, view)),
    h("figcaption", {}, "Bytes for each byte ", [...own].reverse().map(([key, colour]) => h("span", { class: "swatch" }, h("i", { class: `stroke ${colour}` }), ` ${key}`))));
}

function curves(moments, own, width, view) {
  const most = Math.max(2, ...moments.flatMap((one) => own.map(([key]) => one[key] || 0)));
  const room = HEIGHT - FOOT - HEAD;
  const y = (value) => HEIGHT - FOOT - value / most * room;
  const path = (key) => {
    let begun = false;
    return moments.map((one, n) => {
      if (one[key] === null) return "";
      const word = begun ? "L" : "M";
      const lead = !begun && moments.length === 1 ? `M0,${y(one[key]).toFixed(1)}L` : word;
      begun = true;
      return `${lead}${across(n, moments, width).toFixed(1)},${y(one[key]).toFixed(1)}`;
    }).join("");
  };
  const last = moments[moments.length - 1];
  const one = y(1) + 14 < HEIGHT - FOOT ? y(1) + 14 : y(1) - 4; // never over what stands below the axis
  return picture(width, `Write amplification ${times(last.write)}, space amplification ${times(last.space)} now`, null,
    s("line", { x1: 0, x2: width, y1: y(1), y2: y(1), class: "target" }), s("text", { x: 2, y: one, class: "muted" }, "1×"),
    own.map(([key, colour]) => s("path", { d: path(key), class: `line ${colour}` })), axis(moments, width),
    s("text", { x: 2, y: 10, class: "muted" }, times(most)), mark(moments, view, width));
}

function picture(width, label, figure, ...parts) {
  const title = unique("picture");
  return s("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-labelledby": title, "data-figure": figure }, s("title", { id: title }, label), parts);
}

function axis(moments, width) {
  const [first, last] = [moments[0], moments[moments.length - 1]];
  const [from, to] = ends(first.time, last.time);
  return [
    s("line", { x1: 0, x2: width, y1: HEIGHT - FOOT + 0.5, y2: HEIGHT - FOOT + 0.5, class: "axis" }),
    s("text", { x: 0, y: HEIGHT - 6, class: "muted" }, `#${first.snapshot} · ${from}`),
    moments.length > 1 && s("text", { x: width, y: HEIGHT - 6, "text-anchor": "end", class: "muted" }, `#${last.snapshot} · ${to}`),
  ];
}
