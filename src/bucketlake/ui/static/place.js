// Where one is: the address behind # names a table, a part of it, a branch, and what is chosen there, so that a link, a
// reload and the way back all show the same.
//   #/table/<database>/<table>/<part>[/<branch>][?snapshot=3&bucket=0&…]

const SETTLE = 250; // browsers refuse addresses that change too often

export function read() {
  try {
    const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
    const [kind, database, table, room, branch] = path.split("/").map(decodeURIComponent);
    if (kind !== "table" || !database || !table) return null;
    return { database, table, room: room || "history", branch: branch || null, chosen: Object.fromEntries(new URLSearchParams(query || "")) };
  } catch { return null; }
}

export function address({ database, table, room, branch, chosen = {} }) {
  const path = ["table", database, table, room || "history", ...(branch ? [branch] : [])].map(encodeURIComponent).join("/");
  const query = new URLSearchParams(Object.entries(chosen).map(([key, value]) => [key, String(value)])).toString();
  return `#/${path}${query ? `?${query}` : ""}`;
}

export const same = (one, other) => ["database", "table", "branch"].every((key) => one[key] === other[key]);

let timer = 0;
let waiting = null;

// Put the place into the address: as a step that Back undoes, or soon, in place of the one that is there.
export function write(place, step) {
  clearTimeout(timer);
  waiting = null;
  if (step) { if (address(place) !== location.hash) history.pushState(null, "", address(place)); return; }
  waiting = place;
  timer = setTimeout(flush, SETTLE);
}

// What waits goes into the address before one leaves the page; the way to another place forgets it, as the link there
// bears it already.
function flush() {
  clearTimeout(timer);
  if (waiting && address(waiting) !== location.hash) history.replaceState(null, "", address(waiting));
  waiting = null;
}
addEventListener("pagehide", flush);
addEventListener("hashchange", () => { clearTimeout(timer); waiting = null; });
