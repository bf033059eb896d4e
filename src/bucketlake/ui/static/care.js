// Care: advice with the command that mends it, who is at work, and, where it is allowed, maintenance.

import { ask, change } from "./api.js";
import { button, copyable, fill, h, toast, unique } from "./dom.js";
import { ago, brief, bytes, count, plural, span, when } from "./format.js";
import { panel } from "./panel.js";

const EVERY = 3000;

export function advicePanel(table) {
  return panel({
    name: "advice",
    title: "Advice",
    wide: true,
    caption: "From the table's metadata and its own history; the most pressing first.",
    about: {
      what: "What was measured, the value from which on it matters, why, and the statement that mends it.",
      good: "Nothing here.",
      act: "Copy the statement into “bucketlake sql” or lake.sql(…). Nothing is run by copying.",
    },
    load: (signal) => ask("advice", table.place, signal),
    empty: (data) => data.advice.length === 0 && "Nothing to advise: the table is in good shape.",
    draw: (data) => [
      h("ol", { class: "advice" }, data.advice.map((one) => {
        const share = Math.min(1, one.threshold && one.measure ? one.threshold / one.measure : 0);
        return h("li", {},
          h("div", { class: "headline" }, h("strong", {}, one.topic.replaceAll("-", " ")), one.partition && h("span", { class: "pill" }, one.partition),
            h("span", { class: "muted" }, one.threshold ? `measured ${round(one.measure)}, limit ${round(one.threshold)}` : "")),
          one.threshold > 0 && h("div", { class: "gauge", role: "img", "aria-label": `${round(one.measure)} of a limit of ${round(one.threshold)}` }, h("i", { class: "fill" }), h("i", { class: "limit", style: { left: `${share * 100}%` } })),
          h("p", {}, `${one.reason}.`), one.command ? copyable(one.command) : h("p", { class: "muted" }, "No command mends this: it takes a change of what is written."));
      })),
      data.left_out > 0 && h("p", { class: "hint" }, `${plural(data.left_out, "more piece")} not shown.`),
    ],
  });
}

const round = (n) => (Math.abs(n) >= 100 ? count(Math.round(n)) : String(Math.round(n * 100) / 100));

export function activityPanel(table, wide = false) {
  let timer = 0;
  const made = panel({
    name: "activity",
    title: "At work now",
    wide,
    caption: "Looked at every three seconds.",
    about: {
      what: "Streaming queries that write this table, by what they note before each batch; consumers that read it; jobs that were started from this page.",
      good: "Batches that are done soon after they begin, consumers that lag by a snapshot or two.",
      act: "A consumer that lags keeps old snapshots from expiring: let it go on, or CALL sys.reset_consumer.",
    },
    load: async (signal) => {
      const [at, jobs] = await Promise.all([ask("activity", table.place, signal), ask("jobs", {}, signal)]);
      return { ...at, jobs: jobs.jobs.filter((job) => job.table === table.called) };
    },
    draw: (data) => {
      clearTimeout(timer);
      timer = setTimeout(again, EVERY);
      if (table.newest !== null && data.snapshot !== null && data.snapshot !== table.newest) table.arrived(data.snapshot);
      return [
        h("p", {}, data.time ? [`The newest snapshot, ${data.snapshot}, was made `, h("b", { title: when(data.time) }, ago(data.time, data.now)), data.recent ? `; ${plural(data.recent, "commit")} in the last minute.` : "."] : "Nothing was committed yet."),
        group("Jobs of this page", data.jobs.map(job)),
        group("Streams that write", data.streams.map((one) => h("li", {},
          h("div", { class: "headline" }, h("b", { class: "mono cut", title: one.query }, one.query), h("span", { class: one.done ? "muted" : "busy" }, one.batch === null ? "unknown batch" : one.done ? `batch ${one.batch} is done` : `batch ${one.batch} is at work`)),
          h("p", { class: "muted" }, `${one.commits ? `${plural(one.commits, "commit")} among the newest snapshots, ${brief(one.rows)} rows` : "no commit among the newest snapshots"}${one.time ? ` · ${ago(one.time, data.now)}` : ""}`)))),
        group("Consumers", data.consumers.map((one) => h("li", {}, h("b", {}, one.name), h("span", { class: one.lag > 10 ? "warn" : "muted" }, ` ${one.lag ? `${plural(one.lag, "snapshot")} behind` : "up to date"}`)))),
        data.jobs.length + data.streams.length + data.consumers.length === 0 && h("p", { class: "nothing" }, "No stream, no consumer, no job."),
      ];
    },
  });
  const again = () => { if (made.isConnected && !document.hidden) made.refresh(true); else if (made.isConnected) timer = setTimeout(again, EVERY); };
  made.addEventListener("leave", () => clearTimeout(timer));
  return made;
}

const group = (title, items) => items.length > 0 && h("div", { class: "group" }, h("h3", {}, title), h("ul", { class: "plain" }, items.slice(0, 50)));

function job(one) {
  const seen = one.progress;
  const running = one.state === "running" || one.state === "waiting";
  const said = { waiting: "waits", running: one.stopping ? "is stopping" : "runs", done: "done", failed: "failed", stopped: "stopped" }[one.state];
  return h("li", { class: `job ${one.state}` },
    h("div", { class: "headline" }, h("b", {}, one.action), h("span", { class: one.state === "failed" ? "warn" : running ? "busy" : "muted" }, said), h("span", { class: "spring" }),
      running && !one.stopping && button("Stop", () => change("stop", { job: one.number }).catch((error) => toast(error.message)), { class: "quiet small" })),
    running && h("progress", seen && seen.share !== null ? { max: "1", value: seen.share, "aria-label": `${one.action}: progress` } : { "aria-label": `${one.action}: progress` }),
    seen && running && h("p", { class: "muted" }, `${seen.units}${seen.total_units ? ` of ${seen.total_units}` : ""} units · ${brief(seen.rows)} rows · ${bytes(seen.bytes)} · ${span(seen.seconds)}${seen.seconds_left ? `, ${span(seen.seconds_left)} left` : ""}`),
    one.message && h("p", { class: one.state === "failed" ? "warn" : "muted" }, one.message));
}

export function maintenancePanel(table, allowed) {
  const section = h("section", { class: "panel", "aria-labelledby": "maintenance", data: { panel: "maintenance", state: "drawn" } }, h("header", {}, h("h2", { id: "maintenance" }, "Maintenance")));
  if (!allowed) {
    section.append(h("p", { class: "caption" }, "This page only looks. To compact, expire and tag from here, start it so:"), copyable("bucketlake ui --allow-maintenance"));
    return section;
  }
  section.append(
    h("p", { class: "caption" }, "Each asks before it does anything. Progress is shown under “At work now”."),
    h("div", { class: "row" }, button("Compact…", () => asking(table, COMPACT)), button("Expire snapshots…", () => asking(table, EXPIRE)), button("Tag…", () => asking(table, TAG))));
  return section;
}

const COMPACT = {
  action: "compact", title: "Compact this table?", go: "Compact",
  text: "Files are merged and written anew; rows stay as they are, readers and writers go on. Old files stay until their snapshots expire.",
  fields: [["full", "How much", [["true", "everything, into one sorted run a bucket"], ["false", "only what is due by the table's policy"]]]],
};
const EXPIRE = {
  action: "expire", title: "Expire old snapshots?", go: "Expire",
  text: "Snapshots beyond the newest ones go, with the files that only they need: nobody can read them or go back to them any more. Tags and consumers keep theirs.",
  fields: [["retain_max", "Snapshots to keep", "10"]],
};
const TAG = {
  action: "tag", title: "Name a snapshot?", go: "Tag",
  text: "A tag keeps the files of its snapshot for as long as it stands.",
  fields: [["name", "Name", ""], ["snapshot", "Snapshot (the newest if empty)", ""]],
};

function asking(table, question) {
  const title = unique("question");
  const inputs = {};
  const problem = h("p", { class: "warn", role: "alert" });
  const fields = question.fields.map(([name, label, given]) => {
    const id = unique("field");
    const box = Array.isArray(given) ? h("select", { id }, given.map(([value, text]) => h("option", { value }, text))) : h("input", { id, type: "text", value: given, autocomplete: "off", spellcheck: "false", inputmode: name === "name" ? "text" : "numeric" });
    if (name === "snapshot" && table.snapshot) box.value = table.snapshot;
    inputs[name] = box;
    return h("p", { class: "field" }, h("label", { for: id }, label), box);
  });
  const dialog = h("dialog", { "aria-labelledby": title },
    h("h2", { id: title }, question.title), h("p", { class: "mono" }, table.called), h("p", {}, question.text), fields, problem,
    h("div", { class: "row end" }, button("Leave it", () => dialog.close(), { class: "quiet" }), button(question.go, go, { class: "strong" })));
  async function go(event) {
    event.target.disabled = true;
    try {
      const given = Object.fromEntries(Object.entries(inputs).map(([name, box]) => [name, box.value.trim()]));
      await change("start", { action: question.action, ...table.place, ...given });
      dialog.close();
      toast(`${question.go}: started.`);
      table.element("activity").refresh(true);
    } catch (error) {
      fill(problem, error.message);
      event.target.disabled = false;
    }
  }
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
