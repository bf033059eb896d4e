// Elements from data: whatever a text holds, it stays a text.

const SVG = "http://www.w3.org/2000/svg";

function made(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true ? "" : name === "title" || name === "aria-label" ? plain(value) : String(value));
  }
  add(element, children);
  return element;
}

// Signs that steer how others are shown are shown themselves: a name is what it says.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
export const plain = (text) => String(text).replace(HIDDEN, (sign) => `⟨U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

export function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(plain(child)));
  }
  return element;
}

export const h = (tag, props, ...children) => made(document.createElement(tag), props, children);
export const s = (tag, props, ...children) => made(document.createElementNS(SVG, tag), props, children);

export function fill(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

export function icon(path) {
  return s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: path }));
}

export function button(label, handler, props = {}) {
  return h("button", { type: "button", ...props, on: { click: handler } }, label);
}

let numbers = 0;
export const unique = (prefix) => `${prefix}-${++numbers}`;

export function select(label, choices, chosen, handler) {
  const id = unique("select");
  const box = h("select", { id, on: { change: (event) => handler(event.target.value) } },
    choices.map(([value, text]) => h("option", { value, selected: String(value) === String(chosen) }, text)));
  return h("span", { class: "field" }, h("label", { for: id }, label), box);
}

export function toast(text) {
  const item = h("div", { class: "toast" }, text);
  document.getElementById("toasts").append(item);
  setTimeout(() => item.remove(), 5000);
}

export function copyable(text) {
  const say = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
      say.textContent = "Copied";
      toast("The command is in the clipboard.");
    } catch {
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      say.textContent = "Press Ctrl-C";
    }
    setTimeout(() => { say.textContent = "Copy"; }, 2000);
  }, { class: "quiet" });
  const code = h("code", { tabindex: "0" }, text);
  return h("div", { class: "command" }, code, say);
}
