// What the table is: its columns, how its schema came to be, its options against their defaults.

import { ask } from "./api.js";
import { fill, h, select, unique } from "./dom.js";
import { ago, plural, when } from "./format.js";
import { panel } from "./panel.js";

export function columnsPanel(table) {
  return panel({
    name: "columns",
    title: "Columns",
    wide: true,
    caption: "The newest schema: every column, its type, and its part in keys and partitions.",
    about: {
      what: "Every column with its type. Key columns identify a row, partition columns choose its folder.",
      good: "A key that is as short as it can be, partitions of some hundred megabytes each.",
      act: "ALTER TABLE … ADD, RENAME, ALTER and DROP COLUMN change the schema and touch no file.",
    },
    load: (signal) => ask("overview", table.place, signal),
    draw: (data) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Columns, scrolls" }, h("table", { class: "grid told", "aria-label": "Columns" },
      h("thead", {}, h("tr", {}, ["Column", "Type", "Role", "Comment"].map((word) => h("th", { scope: "col" }, word)))),
      h("tbody", {}, data.columns.map((one) => h("tr", {}, h("td", {}, h("b", {}, one.name)), h("td", { class: "mono" }, one.type, !one.nullable && h("span", { class: "muted" }, " not null")),
        h("td", {}, one.role.split(" ").filter(Boolean).map((word) => h("span", { class: "pill" }, word))), h("td", { class: "muted" }, one.comment || "", one.default !== null && h("span", { class: "mono" }, ` default ${one.default}`))))))),
  });
}

const SIGN = { added: "+", dropped: "−" };

function change(one) {
  const said = { renamed: () => [`${one.before} → `, h("b", {}, one.after)], added: () => [h("b", {}, one.column), h("span", { class: "muted mono" }, ` ${one.after}`)], dropped: () => [h("b", {}, one.column), h("span", { class: "muted mono" }, ` ${one.before}`)] };
  const rest = () => [h("b", {}, one.column), h("span", { class: "muted" }, ` ${one.change} `), h("span", { class: "mono" }, `${one.before ?? "none"} → ${one.after ?? "none"}`)];
  return h("li", { class: one.change }, h("span", { class: "sign", role: "img", "aria-label": one.change }, SIGN[one.change] || "~"), h("span", {}, (said[one.change] || rest)()));
}

export function evolutionPanel(table) {
  return panel({
    name: "evolution",
    title: "Schema history",
    wide: true,
    caption: "What each schema changed against the one before, the newest first. Good: few steps, types that only widen.",
    about: {
      what: "Each schema against the one before: columns that came, went, or changed, and options that were set. Old files keep the schema that they were written with; readers translate.",
      good: "Few steps. Types that only widen.",
      act: "An unexpected step: look at the snapshot of about that time, and who made it.",
    },
    load: (signal) => ask("evolution", table.place, signal),
    empty: (data) => data.steps.length === 0 && "No schema can be read.",
    draw: (data) => [
      h("ol", { class: "steps" }, [...data.steps].reverse().map((step) => {
        const first = step.id === data.steps[0].id;
        const many = step.columns.length > 12;
        const list = h("ul", { class: "changes" }, step.columns.slice(0, 300).map(change), step.options.slice(0, 300).map((one) => h("li", { class: "option" }, h("span", { class: "sign", role: "img", "aria-label": "option" }, "·"),
          h("span", {}, h("span", { class: "mono" }, one.key), ` ${one.before === null ? "= " : `${one.before} → `}`, h("span", { class: "mono" }, one.after ?? "removed")))));
        return h("li", {}, h("div", { class: "headline" }, h("strong", {}, `Schema ${step.id}`), step.current && h("span", { class: "pill" }, "current"), h("span", { class: "muted", title: when(step.time) }, step.time ? ago(step.time) : ""), h("span", { class: "muted" }, plural(step.fields, "column"))),
          step.columns.length + step.options.length === 0 ? h("p", { class: "muted" }, "No difference in columns or options.") : first && many ? h("details", {}, h("summary", {}, plural(step.columns.length, "column")), list) : list);
      })),
      data.unreadable.length > 0 && h("p", { class: "warn" }, `Damaged: schema ${data.unreadable.join(", ")}.`),
      data.left_out > 0 && h("p", { class: "hint" }, `${plural(data.left_out, "older schema")} not shown.`),
    ],
  });
}

export function optionsPanel(table) {
  let wanted = "differs";
  let search = "";
  let show = null;
  const id = unique("search");
  return panel({
    name: "options",
    title: "Options",
    wide: true,
    caption: "What is set here, against the defaults. Good: a short list, each with a reason.",
    about: {
      what: "Every option that a table may have: what holds here, the default, and what it is for. Honoured ones change what happens here; kept ones are for other engines; secrets are hidden.",
      good: "A short list of what differs, each with a reason that somebody remembers.",
      act: "ALTER TABLE … SET TBLPROPERTIES ('key' = 'value'), or RESET to have the default back.",
    },
    controls: [
      select("Show", [["differs", "what differs"], ["set", "what is set"], ["all", "all"]], wanted, (value) => { wanted = value; if (show) show(); }),
      h("span", { class: "field" }, h("label", { for: id }, "Find"), h("input", { id, type: "search", placeholder: "compaction", on: { input: (event) => { search = event.target.value.toLowerCase(); if (show) show(); } } })),
    ],
    load: (signal) => ask("settings", table.place, signal),
    draw: (data) => {
      const body = h("div", {});
      show = () => {
        const found = data.settings.filter((one) => (search || wanted === "all" || one[wanted]) && (!search || one.key.includes(search) || one.doc.toLowerCase().includes(search)));
        fill(body, found.length === 0 ? h("p", { class: "nothing" }, search ? "Nothing of that name." : "Every option has its default.")
          : h("ul", { class: "options" }, found.slice(0, 500).map((one) => h("li", { class: one.differs ? "differs" : "" },
            h("div", { class: "headline" }, h("span", { class: "mono key" }, one.key), h("span", { class: "mono value" }, one.value === null ? h("span", { class: "muted" }, "not set") : one.value),
              one.differs && one.default !== null && h("span", { class: "muted" }, "default ", h("span", { class: "mono" }, one.default)), one.effect !== "honoured" && h("span", { class: "pill", title: one.why }, one.effect)),
            h("p", { class: "muted" }, one.doc, one.why && ` (${one.why})`)))));
      };
      show();
      return body;
    },
  });
}
