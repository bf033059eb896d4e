// Maintenance: advice with the command that mends it, who is at work, and, where it is allowed, maintenance.

import { ask, change } from "./api.js";
import { button, copyable, fill, h, toast, unique } from "./dom.js";
import { ago, brief, bytes, count, plural, span, when } from "./format.js";
import { panel } from "./panel.js";

const [EVERY, LATER] = [3000, 15000];

export function advicePanel(table) {
  return panel({
    name: "advice",
    title: "Advice",
    wide: true,
    caption: "What to mend, from the table's metadata and its own history; the most pressing first. Good: nothing here.",
    about: {
      what: "What was measured, the value from which on it matters, why, and what mends it: as a command and as a statement.",
      good: "Nothing here.",
      act: "Copy the command into a shell, or the statement into “bucketlake sql” or lake.sql(…). Nothing is run by copying.",
    },
    load: (signal) => ask("advice", table.place, signal),
    empty: (data) => data.advice.length === 0 && "Nothing to advise. Whether its files are there and whole, bucketlake fsck says.",
    draw: (data) => [
      h("ol", { class: "advice" }, topics(data.advice).map((own) => h("li", {}, piece(own[0]), own.length > 1 && h("details", { class: "more" },
        h("summary", {}, own.length === 2 ? "The same of another partition" : `The same of ${count(own.length - 1)} other partitions`), own.slice(1).map((one) => h("div", { class: "again" }, piece(one))))))),
      data.left_out > 0 && h("p", { class: "hint" }, `${plural(data.left_out, "more piece")} not shown.`),
    ],
  });
}

// Pieces of one kind together, the most pressing first.
function topics(advice) {
  const found = new Map();
  for (const one of advice) {
    const key = one.partition === null ? one : one.topic;
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(one);
  }
  return [...found.values()];
}

function piece(one) {
  const graded = one.threshold > 0 && !ALL_OR_NOTHING.includes(one.topic);
  const share = graded && one.measure ? Math.min(1, one.threshold / one.measure) : 0;
  return [
    h("div", { class: "headline" }, h("strong", {}, ADVICE_WORDS[one.topic] || one.topic.replaceAll("-", " ")), one.partition && h("span", { class: "pill" }, one.partition),
      h("span", { class: "muted" }, graded ? `${round(one.measure / one.threshold)} times the limit` : "")),
    graded && h("div", { class: "gauge", role: "img", title: `measured ${round(one.measure)}, limit ${round(one.threshold)}`, "aria-label": `measured ${round(one.measure)}, limit ${round(one.threshold)}` }, h("i", { class: "fill" }), h("i", { class: "limit", style: { left: `${share * 100}%` } })),
    h("p", {}, `${one.reason}.`),
    one.steps.map((step) => [copyable(step.shell), copyable(step.sql)]),
  ];
}

const ALL_OR_NOTHING = ["options", "statistics"]; // there is no more or less of these
const ADVICE_WORDS = { buckets: "number of buckets", history: "space held by history", held: "space held", statistics: "statistics missing or old" };
const round = (n) => (Math.abs(n) >= 100 ? count(Math.round(n)) : String(Math.round(n * 100) / 100));

export function activityPanel(table, wide = false) {
  let timer = 0;
  const made = panel({
    name: "activity",
    title: "Activity",
    wide,
    caption: "Who writes and reads the table now, looked at every three seconds. Good: streams whose batches end, consumers that keep up.",
    about: {
      what: "Streaming queries that write this table, by what they note before each batch; consumers that read it; jobs that were started from this page.",
      good: "Batches that are done soon after they begin, consumers that lag by a snapshot or two.",
      act: "A consumer that lags keeps old snapshots from expiring: let it go on, or CALL sys.reset_consumer.",
    },
    load: async (signal) => {
      clearTimeout(timer);
      timer = setTimeout(again, LATER); // where this one fails
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
        data.jobs.length + data.streams.length + data.consumers.length === 0 && h("p", { class: "nothing" }, "No streams, no consumers, no jobs."),
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

export function maintenancePanel(table, started) {
  const section = h("section", { class: "panel", "aria-labelledby": "maintenance", data: { panel: "maintenance", state: "drawn" } }, h("header", {}, h("h2", { id: "maintenance" }, "Run maintenance")));
  if (!started.maintenance) {
    section.append(h("p", { class: "caption" }, "This page only looks, and changes nothing. To compact, expire and tag from here, start it so:"), copyable(started.to_maintain));
    return section;
  }
  section.append(
    h("p", { class: "caption" }, "Each asks before it does anything. Progress is shown under “Activity”."),
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
  const run = button(question.go, go, { class: "strong" });
  for (const box of Object.values(inputs)) box.addEventListener("keydown", (event) => { if (event.key === "Enter" && box.tagName === "INPUT") go(); });
  const dialog = h("dialog", { "aria-labelledby": title },
    h("h2", { id: title }, question.title), h("p", { class: "mono" }, table.called), h("p", {}, question.text), fields, problem,
    h("div", { class: "row end" }, button("Leave it", () => dialog.close(), { class: "quiet" }), run));
  async function go() {
    const empty = question.fields.find(([name]) => name !== "snapshot" && !inputs[name].value.trim());
    if (empty) {
      fill(problem, `${empty[1]}: this is needed.`);
      inputs[empty[0]].focus();
      return;
    }
    run.disabled = true;
    try {
      const given = Object.fromEntries(Object.entries(inputs).map(([name, box]) => [name, box.value.trim()]));
      await change("start", { action: question.action, ...table.place, ...given });
      dialog.close();
      toast(`${question.go}: started.`);
      table.element("activity").refresh(true);
    } catch (error) {
      fill(problem, error.message);
      run.disabled = false;
    }
  }
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
