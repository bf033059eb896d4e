// A figure with its frame: title, what it shows, and its states: loading, empty, failed, drawn.

import { add, button, fill, h, unique } from "./dom.js";

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) { seen.unobserve(entry.target); entry.target.dispatchEvent(new Event("seen")); }
  }
}, { rootMargin: "200px" });

export function panel({ name, title, caption, about, controls = [], load, draw, empty, wide = false }) {
  const id = unique("panel");
  const body = h("div", { class: "body" });
  const note = h("p", { class: "caption" }, caption);
  const explained = about && h("details", { class: "about" },
    h("summary", {}, "How to read this"),
    h("dl", {},
      h("dt", {}, "What am I seeing?"), h("dd", {}, about.what),
      h("dt", {}, "What is good?"), h("dd", {}, about.good),
      h("dt", {}, "What can I do?"), h("dd", {}, about.act)));
  const tools = h("div", { class: "tools" }, controls);
  const section = h("section", { class: `panel${wide ? " wide" : ""}`, "aria-labelledby": id, data: { panel: name } },
    h("header", {}, h("h2", { id }, title), tools), note, body, explained);
  let run = null;

  function state(word, ...children) {
    section.dataset.state = word;
    section.setAttribute("aria-busy", word === "loading" ? "true" : "false");
    if (children.length) fill(body, children);
  }

  async function refresh(quiet = false) {
    if (run) run.abort();
    const own = run = new AbortController();
    const held = focused(body);
    // What is drawn stays, pale, until its successor is there: nothing jumps.
    if (!quiet && section.dataset.state === "drawn") { state("loading"); add(body, [h("span", { class: "sr", role: "status" }, "Loading")]); }
    else if (!quiet) state("loading", h("div", { class: "waiting", role: "status" }, h("span", { class: "bar" }), h("span", { class: "bar" }), h("span", { class: "bar" }), h("span", { class: "sr" }, "Loading")));
    try {
      const data = await load(own.signal);
      if (own.signal.aborted) return;
      const nothing = empty && empty(data);
      if (nothing) state("empty", h("p", { class: "nothing" }, nothing));
      else {
        state("drawn");
        fill(body, draw(data, { refresh, note, section }));
        if (held >= 0 && document.activeElement === document.body) reachable(body)[held]?.focus({ preventScroll: true });
      }
    } catch (error) {
      if (own.signal.aborted) return;
      state("failed", h("div", { class: "failure", role: "alert" },
        h("p", {}, h("strong", {}, heading(error)), " ", error.message || String(error)),
        remedy(error),
        button("Try again", () => refresh(), { class: "quiet" })));
    }
  }

  section.addEventListener("seen", () => refresh());
  section.refresh = refresh;
  section.note = note;
  section.leave = () => { if (run) run.abort(); section.dispatchEvent(new Event("leave")); };
  state("waiting");
  queueMicrotask(() => seen.observe(section));
  return section;
}

// What has the focus keeps it where a figure is drawn anew: by its place among all that can have it.
const reachable = (body) => [...body.querySelectorAll("button, a[href], select, input, summary, [tabindex='0']")];
const focused = (body) => reachable(body).indexOf(document.activeElement);

const HEADINGS = {
  damaged: "A file of this table is damaged or missing.", storage: "The storage does not answer.", missing: "Not found.",
  slow: "This takes too long.", gone: "No connection.", locked: "Locked.", unsupported: "Not possible here.", invalid: "Not possible.",
};
// What to do, where the message does not say it already; a command is shown as one.
export const remedy = (error) => error.remedy && !String(error.message).includes(error.remedy)
  && h("p", {}, error.remedy.startsWith("bucketlake ") ? h("code", {}, error.remedy) : error.remedy);
const heading = (error) => HEADINGS[error.kind] || "This did not work.";
