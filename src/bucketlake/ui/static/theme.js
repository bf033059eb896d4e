// Light, dark, or as the system has it.

import { fill, icon } from "./dom.js";

const KEY = "bucketlake-theme";
const WORDS = { auto: "as the system has it", light: "light", dark: "dark" };
const SIGNS = {
  auto: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  light: "M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  dark: "M13 9.500A5.500 5.500 0 0 1 6.500 3a5.500 5.500 0 1 0 6.500 6.500z",
};
const system = matchMedia("(prefers-color-scheme: dark)");

let printing = false;

function stored() {
  try { return localStorage.getItem(KEY) || "auto"; } catch { return "auto"; }
}

function apply(choice) {
  const dark = !printing && (choice === "dark" || (choice === "auto" && system.matches));
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  dispatchEvent(new Event("themechange"));
}

export function start(button) {
  let choice = stored() in WORDS ? stored() : "auto";
  const show = () => {
    apply(choice);
    fill(button, icon(SIGNS[choice]));
    button.setAttribute("aria-label", `Theme: ${WORDS[choice]}. Change it`);
    button.title = `Theme: ${WORDS[choice]}`;
  };
  button.addEventListener("click", () => {
    choice = { auto: "light", light: "dark", dark: "auto" }[choice];
    try { localStorage.setItem(KEY, choice); } catch { /* a choice for this page alone */ }
    show();
  });
  system.addEventListener("change", show);
  for (const [event, now] of [["beforeprint", true], ["afterprint", false]]) addEventListener(event, () => { printing = now; show(); });
  show();
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
