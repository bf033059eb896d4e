// The page of one table: its headline, its rooms, and what its figures tell each other.

import { amplificationPanel } from "./amplification.js";
import { ask } from "./api.js";
import { activityPanel, advicePanel, maintenancePanel } from "./care.js";
import { button, fill, h } from "./dom.js";
import { ago, brief, bytes, count, plural, when } from "./format.js";
import { heatPanel } from "./heat.js";
import { levelsPanel } from "./levels.js";
import { differencePanel, samplePanel } from "./rows.js";
import { columnsPanel, evolutionPanel, optionsPanel } from "./schema.js";
import { filesPanel, sizesPanel } from "./sizes.js";
import { timelinePanel } from "./timeline.js";

const ROOMS = {
  history: ["History", (table) => [timelinePanel(table), amplificationPanel(table), activityPanel(table, true)]],
  layout: ["Layout", (table) => [heatPanel(table), levelsPanel(table), sizesPanel(table), filesPanel(table)]],
  rows: ["Rows", (table) => [samplePanel(table), differencePanel(table)]],
  schema: ["Schema", (table) => [columnsPanel(table), evolutionPanel(table), optionsPanel(table)]],
  care: ["Care", (table, allowed) => [advicePanel(table), activityPanel(table), maintenancePanel(table, allowed)]],
};
const MODES = {
  fixed: (o) => `${plural(o.bucket, "bucket")} by hash of the key`, dynamic: () => "dynamic buckets", "key-dynamic": () => "dynamic buckets, keys across partitions",
  unaware: () => "no buckets", postpone: () => "buckets given later, by compaction",
};
// What moves with a snapshot chosen on the time line.
const TRAVELLING = ["heat", "levels", "sizes", "files", "sample"];

class Table {
  constructor(place) {
    Object.assign(this, { place, snapshot: null, limit: 200, commits: [], chosen: null, overview: null, newest: null, panels: [], watchers: {} });
    this.called = `${place.database}.${place.table}`;
  }

  get unbucketed() { return this.overview?.bucket_mode === "unaware"; }

  element(name) { return this.panels.find((one) => one.dataset.panel === name) || { refresh() {} }; }

  watch(event, handler) { (this.watchers[event] ||= []).push(handler); }

  changed(event) { for (const handler of this.watchers[event] || []) handler(); }

  look(snapshot) {
    this.snapshot = snapshot;
    this.changed("snapshot");
    this.changed("commits");
    for (const name of TRAVELLING) { const one = this.element(name); if (one.dataset && one.dataset.state !== "waiting") one.refresh(); }
    const line = this.element("timeline");
    if (line.dataset && line.dataset.state === "drawn") line.refresh(true);
  }

  bucket(partition, bucket, jump) {
    this.chosen = { partition, bucket };
    const levels = this.element("levels");
    if (!levels.dataset) return;
    Promise.resolve(levels.dataset.state === "waiting" && !jump ? null : levels.refresh()).then(() => {
      if (!jump) return;
      levels.scrollIntoView({ block: "nearest" });
      levels.querySelector("[data-figure=levels]")?.focus();
    });
  }

  arrived(snapshot) {
    this.newest = snapshot;
    this.changed("arrived");
  }
}

export function tablePage(parts, allowed, go) {
  const place = { database: parts.database, table: parts.table, branch: parts.branch };
  const table = new Table(place);
  table.go = (branch) => go({ ...parts, branch: branch === "main" ? null : branch });
  const head = h("div", { class: "head" });
  const travel = h("div", { class: "travel", role: "status" });
  const body = h("div", { class: "panels" });
  const page = h("div", { class: "table-page" }, head, travel, body);

  async function overview() {
    try {
      const found = await ask("overview", place);
      table.overview = found;
      table.newest = found.snapshot;
      fill(head, headline(found));
      table.changed("overview");
    } catch (error) {
      fill(head, h("h1", {}, table.called), h("div", { class: "failure", role: "alert" }, h("p", {}, error.message), button("Try again", overview, { class: "quiet" })));
    }
  }

  function headline(found) {
    const kind = found.keyed ? `Table with a key, ${found.merge_engine}` : "Append table";
    return [
      h("h1", {}, h("span", { class: "muted" }, `${place.database}.`), place.table, found.branch !== "main" && h("span", { class: "pill branch" }, "branch ", h("b", {}, found.branch))),
      found.branch !== "main" && h("p", {}, h("a", { href: table.go("main") }, "To the main branch")),
      h("p", { class: "lead" }, kind, " · ", (MODES[found.bucket_mode] || (() => found.bucket_mode))(found), found.primary_key.length > 0 && [" · key ", h("b", {}, found.primary_key.join(", "))], found.partition_key.length > 0 && [" · partitioned by ", h("b", {}, found.partition_key.join(", "))]),
      found.comment && h("p", { class: "comment" }, found.comment),
      found.damaged && h("p", { class: "warn", role: "alert" }, found.damaged),
      h("dl", { class: "figures" }, [["Rows", brief(found.rows), `${count(found.rows)} in files, superseded ones included`], ["Size", bytes(found.bytes), null], ["Files", brief(found.files), null], found.partitions !== null && ["Partitions", brief(found.partitions), null],
        ["Snapshot", found.snapshot === null ? "none" : `${found.snapshot}`, found.earliest ? `the oldest is ${found.earliest}` : null], ["Changed", found.time ? ago(found.time) : "never", found.time ? when(found.time) : null]]
        .filter(Boolean).map(([name, value, title]) => h("div", { title }, h("dt", {}, name), h("dd", {}, value)))),
      rooms(),
    ];
  }

  function rooms() {
    return h("nav", { class: "rooms", "aria-label": "Parts of the table" }, Object.entries(ROOMS).map(([key, [word]]) => h("a", { href: go({ ...parts, room: key }), "aria-current": key === parts.room ? "page" : null }, word)));
  }

  table.watch("snapshot", () => fill(travel, table.snapshot !== null && h("p", {}, "All figures of files and rows are as of ", h("b", {}, `snapshot ${table.snapshot}`), ". ", button("Back to the newest", () => table.look(null), { class: "quiet small" }))));
  table.watch("arrived", () => fill(travel, h("p", {}, `Snapshot ${table.newest} has been committed. `, button("Show it", () => { fill(travel); overview(); table.snapshot = null; for (const one of table.panels) if (one.refresh && one.dataset.panel !== "activity" && one.dataset.state !== "waiting") one.refresh(true); }, { class: "quiet small" }))));
  fill(head, h("h1", {}, h("span", { class: "muted" }, `${place.database}.`), place.table), rooms());
  const room = ROOMS[parts.room] || ROOMS.history;
  table.ready = overview();
  table.panels = room[1](table, allowed);
  fill(body, table.panels);
  if (parts.room === "rows") ask("timeline", { ...place, limit: 200 }).then((data) => { table.commits = data.commits; table.changed("commits"); }).catch(() => {});
  page.leave = () => table.panels.forEach((one) => one.leave && one.leave());
  return page;
}
