// Numbers, sizes and times as people read them.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const count = (n) => (n === null || n === undefined ? "–" : whole.format(n));
export const brief = (n) => (n === null || n === undefined ? "–" : Math.abs(n) < 100000 ? whole.format(n) : short.format(n));
export const times = (n) => (n === null || n === undefined ? "–" : `${n >= 100 ? Math.round(n) : n.toFixed(n >= 10 ? 1 : 2)}×`);
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export const briefly = (n, one, many = `${one}s`) => `${brief(n)} ${n === 1 ? one : many}`;

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  let value = Math.abs(n);
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) { value /= 1024; unit += 1; }
  const digits = unit === 0 || value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  return `${n < 0 ? "−" : ""}${value.toFixed(digits)} ${UNITS[unit]}`;
}

export function when(millis) {
  if (millis === null || millis === undefined || millis === 0) return "–";
  const date = new Date(millis);
  if (Number.isNaN(date.getTime())) return "–";
  const pad = (n) => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

// The two ends of a span: days, or, within one day, times.
export function ends(first, last) {
  const [a, b] = [when(first), when(last)];
  return a.slice(0, 10) === b.slice(0, 10) ? [a.slice(11, 16), b.slice(11, 16)] : [a.slice(0, 10), b.slice(0, 10)];
}

// A time for those who are elsewhere.
export function universal(millis) {
  const date = new Date(millis);
  return Number.isNaN(date.getTime()) ? "" : `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

export function ago(millis, now = Date.now()) {
  if (!millis) return "–";
  const seconds = Math.max(0, Math.round((now - millis) / 1000));
  for (const [size, word] of [[86400 * 365, "year"], [86400 * 30, "month"], [86400, "day"], [3600, "hour"], [60, "minute"]]) {
    if (seconds >= size) { const n = Math.floor(seconds / size); return `${n} ${word}${n > 1 ? "s" : ""} ago`; }
  }
  return seconds < 5 ? "just now" : `${seconds} seconds ago`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
