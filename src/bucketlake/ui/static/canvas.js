// Drawings on canvas: sized to their place, sharp, drawn anew with the theme; large ones draw only what is in view.

import { fill, h, plain } from "./dom.js";
import { colour } from "./theme.js";

export const RAMP = 8;

export function palette() {
  const names = ["paper", "raised", "ink", "muted", "faint", "line", "accent", "accent-soft", "warn", "focus", "teal", "amber", "amber-edge", "on-amber", "rust", "grey"];
  const found = Object.fromEntries(names.map((name) => [name, colour(name)]));
  found.ramp = Array.from({ length: RAMP }, (_, n) => colour(`ramp-${n}`));
  found.turn = Number(colour("ramp-turn"));
  return found;
}

// A surface that draws itself with draw(context, width, height, palette) whenever something has changed.
export function surface(height, draw, props = {}) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const box = h("div", { class: "surface", ...props, style: { height: `${height}px` } }, canvas);
  const drawn = painter(canvas, () => [box.clientWidth, box.clientHeight], draw);
  live(box, drawn);
  return { box, canvas, redraw: drawn };
}

// A surface within a larger field that scrolls: draw gets the view's left and top as well.
export function field(draw, props = {}) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const space = h("div", { class: "space" });
  const box = h("div", { class: "field-view", ...props }, h("div", { class: "pin" }, canvas), space);
  const drawn = painter(canvas, () => [box.clientWidth, box.clientHeight],
    (context, width, height, colours) => draw(context, width, height, colours, box.scrollLeft, box.scrollTop));
  box.addEventListener("scroll", drawn, { passive: true });
  live(box, drawn);
  return {
    box, canvas, redraw: drawn,
    resize(width, height) {
      space.style.setProperty("width", `${width}px`);
      space.style.setProperty("height", `${height}px`);
      drawn();
    },
  };
}

function live(box, drawn) {
  const watch = new ResizeObserver(drawn);
  watch.observe(box);
  const theme = () => { if (box.isConnected) drawn(true); else removeEventListener("themechange", theme); };
  addEventListener("themechange", theme);
}

function painter(canvas, size, draw) {
  let asked = false;
  function paint() {
    asked = false;
    const [width, height] = size();
    if (!width || !height) return;
    const scale = Math.min(devicePixelRatio || 1, 3);
    const [w, t] = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== w || canvas.height !== t) {
      canvas.width = w;
      canvas.height = t;
      canvas.style.setProperty("width", `${width}px`);
      canvas.style.setProperty("height", `${height}px`);
    }
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `12px ${colour("sans")}`;
    context.textBaseline = "middle";
    draw(context, width, height, palette());
  }
  // At once where the colours are others: a page on its way to paper does not wait for a frame.
  return (now) => {
    if (now === true) { paint(); return; }
    if (asked) return;
    asked = true;
    requestAnimationFrame(paint);
  };
}

// A drawing of lines and texts that is made anew where its place has another width: texts keep their size.
export function chart(draw) {
  const box = h("div", { class: "chart-place" });
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.round(box.clientWidth);
    if (!now || now === width) return;
    width = now;
    fill(box, draw(now));
  }).observe(box);
  return box;
}

// The colour of a level, on paper as on the page: level 0 stands out, the deeper the stronger. `top`: the deepest there is.
export const levelShade = (level, top) => (level <= 0 ? -1 : 3 + Math.min(4, Math.floor((level - 1) * 4 / Math.max(1, top - 1))));

// What is too long loses its end, or its beginning where it stands to the right: partitions differ in their ends.
export function text(context, label, x, y, most, colours, align = "left") {
  context.textAlign = align;
  let shown = plain(label);
  if (most !== undefined && context.measureText(shown).width > most) {
    const cut = (kept) => (align === "right" ? `…${shown.slice(shown.length - kept)}` : `${shown.slice(0, kept)}…`);
    let low = 0;
    let high = shown.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(cut(middle)).width <= most) low = middle; else high = middle - 1;
    }
    shown = low ? cut(low) : "";
  }
  context.fillStyle = colours;
  context.fillText(shown, x, y);
}

export function block(context, x, y, width, height, radius = 2) {
  context.beginPath();
  context.roundRect(x, y, width, height, Math.min(radius, width / 2, height / 2));
}
