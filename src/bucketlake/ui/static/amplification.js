// Bytes over time: by level, stacked; and how much is written and kept for each byte.

import { ask } from "./api.js";
import { chart } from "./canvas.js";
import { h, s, unique } from "./dom.js";
import { bytes, times, when } from "./format.js";
import { panel } from "./panel.js";

const [HEIGHT, FOOT] = [170, 22];

export function amplificationPanel(table) {
  return panel({
    name: "amplification",
    title: "Write and space amplification",
    wide: true,
    caption: "What compaction and history cost, over the commits shown.",
    about: {
      what: "Left: the table's bytes by level after each snapshot, the lowest level at the bottom. Right: bytes written for each byte that came in (write), and bytes kept for each byte that is live (space); both begin with the first commit shown.",
      good: "Write amplification of 2 to 8 for a table with a key. Space near 1 after expiry. Most bytes at the bottom.",
      act: "Write too high: compact less often (num-sorted-run.compaction-trigger), or let one job compact. Space too high: expire snapshots, drop tags that nobody needs.",
    },
    load: (signal) => ask("amplification", { ...table.place, limit: table.limit }, signal),
    empty: (data) => data.moments.length === 0 && "Nothing was committed yet.",
    draw: drawn,
  });
}

function drawn(data) {
  const moments = data.moments;
  const last = moments[moments.length - 1];
  return [
    h("div", { class: "pair-charts" }, stacked(moments), lines(moments)),
    h("dl", { class: "pairs" }, [["Written", bytes(last.written)], ["Rewritten by compaction", bytes(last.rewritten)], ["Write amplification", times(last.write)], ["Live", bytes(last.live)], ["Kept with history", bytes(last.held)], ["Space amplification", times(last.space)], last.overlap !== null && ["Live over lowest level", times(last.overlap)]]
      .filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
  ];
}

const across = (n, moments, width) => (moments.length > 1 ? n / (moments.length - 1) * width : width);

const shadeOf = (place, levels) => (levels.length > 1 ? Math.max(1, 6 - place * Math.max(1, Math.floor(5 / (levels.length - 1)))) : 5);

function stacked(moments) {
  const levels = [...new Set(moments.flatMap((one) => Object.keys(one.levels).map(Number)))].sort((a, b) => b - a);
  return h("figure", {}, chart((width) => areas(moments, levels, width)),
    h("figcaption", {}, "Bytes by level ", levels.slice(0, 6).map((level, place) => h("span", { class: "swatch" }, h("i", { class: `ramp-${shadeOf(place, levels)}` }), ` L${level}`))));
}

function areas(moments, levels, width) {
  const most = Math.max(1, ...moments.map((one) => one.live));
  const room = HEIGHT - FOOT - 16;
  const sums = moments.map(() => 0);
  const drawn = levels.map((level, place) => {
    const below = moments.map((one, n) => sums[n]);
    moments.forEach((one, n) => { sums[n] += one.levels[level] || 0; });
    const y = (value) => HEIGHT - FOOT - value / most * room;
    const start = moments.length > 1 ? [] : [`M0,${y(sums[0])}`];
    const up = moments.map((one, n) => `${n || start.length ? "L" : "M"}${across(n, moments, width).toFixed(1)},${y(sums[n]).toFixed(1)}`);
    const down = moments.map((one, n) => `L${across(moments.length - 1 - n, moments, width).toFixed(1)},${y(below[moments.length - 1 - n]).toFixed(1)}`);
    const end = moments.length > 1 ? [] : [`L0,${y(below[0])}`];
    return s("path", { d: [...start, ...up, ...down, ...end, "Z"].join(""), class: `area ramp-${shadeOf(place, levels)}` }, s("title", {}, `level ${level}: ${bytes(moments[moments.length - 1].levels[level] || 0)} now`));
  });
  const title = unique("bytes");
  return s("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-labelledby": title, "data-figure": "amplification" },
    s("title", { id: title }, `Bytes by level: ${bytes(moments[0].live)} after snapshot ${moments[0].snapshot}, ${bytes(moments[moments.length - 1].live)} after snapshot ${moments[moments.length - 1].snapshot}`),
    drawn, axis(moments, width), s("text", { x: 2, y: 10, class: "muted" }, bytes(most)));
}

function lines(moments) {
  return h("figure", {}, chart((width) => curves(moments, width)),
    h("figcaption", {}, "Bytes for each byte ", h("span", { class: "swatch" }, h("i", { class: "stroke first" }), " write"), h("span", { class: "swatch" }, h("i", { class: "stroke second" }), " space")));
}

function curves(moments, width) {
  const most = Math.max(2, ...moments.map((one) => Math.max(one.write || 0, one.space || 0)));
  const room = HEIGHT - FOOT - 16;
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
  const title = unique("lines");
  const last = moments[moments.length - 1];
  return s("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-labelledby": title },
    s("title", { id: title }, `Write amplification ${times(last.write)}, space amplification ${times(last.space)} now`),
    s("line", { x1: 0, x2: width, y1: y(1), y2: y(1), class: "target" }), s("text", { x: 2, y: y(1) - 5, class: "muted" }, "1×"),
    s("path", { d: path("space"), class: "line second" }), s("path", { d: path("write"), class: "line first" }), axis(moments, width),
    s("text", { x: 2, y: 10, class: "muted" }, times(most)));
}

function axis(moments, width) {
  const [first, last] = [moments[0], moments[moments.length - 1]];
  return [
    s("line", { x1: 0, x2: width, y1: HEIGHT - FOOT + 0.5, y2: HEIGHT - FOOT + 0.5, class: "axis" }),
    s("text", { x: 0, y: HEIGHT - 6, class: "muted" }, `#${first.snapshot} ${when(first.time).slice(0, 10)}`),
    moments.length > 1 && s("text", { x: width, y: HEIGHT - 6, "text-anchor": "end", class: "muted" }, `#${last.snapshot} ${when(last.time).slice(0, 10)}`),
  ];
}
