// The page of one table: its headline, its parts, and what its figures tell each other.

import { amplificationPanel } from "./amplification.js";
import { ask } from "./api.js";
import { button, fill, h } from "./dom.js";
import { ago, brief, bytes, count, plural, universal, when } from "./format.js";
import { heatPanel } from "./heat.js";
import { levelsPanel } from "./levels.js";
import { activityPanel, advicePanel, maintenancePanel } from "./maintenance.js";
import { remedy } from "./panel.js";
import { address, write } from "./place.js";
import { differencePanel, samplePanel } from "./rows.js";
import { columnsPanel, evolutionPanel, optionsPanel } from "./schema.js";
import { filesPanel, sizesPanel } from "./sizes.js";
import { timelinePanel } from "./timeline.js";

const ROOMS = {
  history: ["History", (table) => [timelinePanel(table), amplificationPanel(table), activityPanel(table, true)]],
  layout: ["Layout", (table) => [heatPanel(table), levelsPanel(table), sizesPanel(table), filesPanel(table)]],
  rows: ["Rows", (table) => [samplePanel(table), differencePanel(table)]],
  schema: ["Schema", (table) => [columnsPanel(table), evolutionPanel(table), optionsPanel(table)]],
  maintenance: ["Maintenance", (table, started) => [advicePanel(table), activityPanel(table), maintenancePanel(table, started)]],
};
const MODES = {
  fixed: (o) => `${plural(o.bucket, "bucket")} by hash of the ${o.keyed ? "key" : "bucket key"}`, dynamic: () => "dynamic buckets", "key-dynamic": () => "dynamic buckets, keys unique across partitions",
  unaware: () => "no buckets", postpone: () => "buckets assigned later, by compaction",
};
const EVERY = 10000;
// What moves with a snapshot chosen on the time line.
const TRAVELLING = ["heat", "levels", "sizes", "files", "sample"];

class Table {
  constructor(place) {
    Object.assign(this, { place: { database: place.database, table: place.table, branch: place.branch }, room: place.room, state: place.chosen, commits: [], overview: null, newest: null, panels: [], watchers: {} });
    this.called = `${place.database}.${place.table}`;
    this.begin();
  }

  // The bucket whose files are shown: that of the address, else the one that the heat map proposes.
  begin() { this.chosen = this.number("bucket", -2) === null ? null : { partition: this.state.partition || "", bucket: this.number("bucket", -2) }; }

  number(key, low = 1) {
    const found = this.state[key];
    return found !== undefined && /^-?\d{1,18}$/.test(found) && Number(found) >= low ? Number(found) : null;
  }

  get snapshot() { return this.number("snapshot"); }

  get limit() { return this.number("commits") || 200; }

  get unbucketed() { return this.overview?.bucket_mode === "unaware"; }

  // Where a part of this table is, with what is chosen.
  at(room, given = {}) { return address({ ...this.place, room, chosen: kept({ ...this.state, ...given }) }); }

  // Remember a choice in the address; as a step, if Back shall undo it.
  choose(given, step = false) {
    this.state = kept({ ...this.state, ...given });
    write({ ...this.place, room: this.room, chosen: this.state }, step);
    this.changed("state");
  }

  element(name) { return this.panels.find((one) => one.dataset.panel === name) || { refresh() {} }; }

  watch(event, handler) { (this.watchers[event] ||= []).push(handler); }

  changed(event) { for (const handler of this.watchers[event] || []) handler(); }

  look(snapshot) {
    this.choose({ snapshot }, true);
    this.changed("snapshot");
    this.changed("commits");
    for (const name of TRAVELLING) { const one = this.element(name); if (one.dataset && one.dataset.state !== "waiting") one.refresh(); }
    const line = this.element("timeline");
    if (line.dataset && line.dataset.state === "drawn") line.refresh(true);
  }

  bucket(partition, bucket, { jump = false, proposed = false } = {}) {
    this.chosen = { partition, bucket };
    if (!proposed) this.choose({ partition: partition || null, bucket });
    this.changed("bucket");
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

const kept = (given) => Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null && value !== undefined && value !== "").map(([key, value]) => [key, String(value)]));

export function tablePage(first, started) {
  const table = new Table(first);
  const place = table.place;
  const head = h("div", { class: "head" }, title(place));
  const links = Object.entries(ROOMS).map(([key, [word]]) => [key, h("a", {}, word)]);
  const rooms = h("nav", { class: "rooms", "aria-label": "Parts of the table" }, links.map(([, link]) => link));
  const travel = h("div", { class: "travel", role: "status" });
  const body = h("div", { class: "panels" });
  const page = h("div", { class: "table-page" }, head, rooms, travel, body);
  let timer = 0;
  table.branchLink = (branch) => address({ ...place, branch: branch === "main" ? null : branch, room: table.room });

  async function overview() {
    try {
      const found = await ask("overview", place);
      table.overview = found;
      table.newest = found.snapshot;
      fill(head, headline(table, found));
      table.changed("overview");
    } catch (error) {
      // What is not there has no parts either: it is said once.
      if (error.kind === "missing") { leave(); table.panels = []; fill(body); }
      rooms.hidden = error.kind === "missing";
      fill(head, title(place), h("div", { class: "failure", role: "alert" }, h("p", {}, error.message), remedy(error), h("div", { class: "row" }, button("Try again", again, { class: "quiet" }), h("a", { class: "action", href: "#/" }, "To the warehouse"))));
    }
  }

  function again() {
    rooms.hidden = false;
    table.ready = overview();
    enter();
  }

  function mark() {
    for (const [key, link] of links) {
      link.setAttribute("href", table.at(key));
      if (key === table.room) {
        link.setAttribute("aria-current", "page");
        rooms.scrollLeft = link.offsetLeft - rooms.offsetLeft - 40;
      } else link.removeAttribute("aria-current");
    }
  }

  function banner() {
    fill(travel, table.snapshot !== null && h("p", {}, "Files and rows below are as of ", h("b", {}, `snapshot ${table.snapshot}`), ". ", button("Back to the newest", () => table.look(null), { class: "quiet small" })));
  }

  function newer() {
    fill(travel, h("p", {}, `Snapshot ${table.newest} has been committed. `, button("Show it", () => {
      table.choose({ snapshot: null });
      banner();
      overview();
      for (const one of table.panels) if (one.refresh && one.dataset.panel !== "activity" && one.dataset.state !== "waiting") one.refresh(true);
    }, { class: "quiet small" })));
  }

  function leave() {
    clearTimeout(timer);
    table.panels.forEach((one) => one.leave && one.leave());
  }

  // Parts without the figure of activity look now and then whether somebody has committed.
  async function listen() {
    timer = setTimeout(listen, EVERY);
    if (document.hidden || table.newest === null) return;
    const found = await ask("activity", place).catch(() => null);
    if (page.isConnected && found?.snapshot && found.snapshot !== table.newest) table.arrived(found.snapshot);
  }

  function enter() {
    leave();
    table.watchers = { state: [mark], snapshot: [banner], arrived: [newer] };
    mark();
    banner();
    table.panels = ROOMS[table.room][1](table, started);
    fill(body, table.panels);
    page.part = ROOMS[table.room][0];
    if (!table.element("activity").dataset) timer = setTimeout(listen, EVERY);
    if (table.room === "rows") ask("timeline", { ...place, limit: 200 }).then((data) => { table.commits = data.commits; table.changed("commits"); }).catch(() => {});
  }

  page.place = place;
  page.to = (now) => {
    const moved = now.room !== table.room;
    Object.assign(table, { room: ROOMS[now.room] ? now.room : "history", state: now.chosen });
    table.begin();
    enter();
    if (moved && rooms.getBoundingClientRect().top < 0) rooms.scrollIntoView({ block: "start" });
  };
  page.leave = leave;
  table.ready = overview();
  page.to(first);
  return page;
}

const title = (place) => h("h1", { class: `${place.database}.${place.table}`.length > 36 ? "long" : "" }, h("span", { class: "muted" }, `${place.database}.`), place.table, place.branch && h("span", { class: "pill branch" }, "branch ", h("b", {}, place.branch)));

function headline(table, found) {
  const mode = (MODES[found.bucket_mode] || (() => found.bucket_mode))(found);
  return [
    title(table.place),
    found.branch !== "main" && h("p", {}, h("a", { href: table.branchLink("main") }, "To the main branch")),
    h("p", { class: "lead" }, found.keyed ? ["Primary-key table · merge engine ", found.merge_engine] : "Append table", " · ", mode, found.primary_key.length > 0 && [" · key ", h("b", {}, found.primary_key.join(", "))], found.partition_key.length > 0 && [" · partitioned by ", h("b", {}, found.partition_key.join(", "))]),
    found.comment && h("p", { class: "comment" }, found.comment),
    found.damaged && h("p", { class: "warn", role: "alert" }, found.damaged),
    h("dl", { class: "figures" }, [
      [found.keyed ? "Rows stored" : "Rows", brief(found.rows), found.keyed ? `${count(found.rows)} in files; those that newer ones replace are counted until compaction drops them` : count(found.rows)],
      ["Size", bytes(found.bytes), found.bytes === null ? null : `${count(found.bytes)} bytes in data files`], ["Files", brief(found.files), "data files of the newest snapshot"], found.partitions !== null && ["Partitions", brief(found.partitions), null],
      ["Snapshot", found.snapshot === null ? "none" : `${found.snapshot}`, found.earliest ? `the oldest that is kept is ${found.earliest}` : null], ["Changed", found.time ? ago(found.time) : "never", found.time ? `${when(found.time)} here, ${universal(found.time)}` : null],
    ].filter(Boolean).map(([name, value, told]) => h("div", { title: told }, h("dt", {}, name), h("dd", {}, value)))),
  ];
}
