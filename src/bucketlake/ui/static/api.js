// Questions to the server: one place for errors, time limits and the token of changes.

const PATIENCE = 40000;
let csrf = "";

export class Refusal extends Error {
  constructor(kind, message, remedy, status) {
    super(message);
    Object.assign(this, { kind, remedy, status });
  }
}

async function told(response) {
  let body = null;
  try { body = await response.json(); } catch { body = null; }
  if (response.ok && body) return body;
  if (response.status === 401) throw new Refusal("locked", "The server was started anew: open the address that it printed.", null, 401);
  const error = (body && body.error) || {};
  throw new Refusal(error.kind || "failed", error.message || `The server answered ${response.status}.`, error.remedy, response.status);
}

async function send(path, options, signal) {
  const patience = AbortSignal.timeout(PATIENCE);
  const both = signal ? AbortSignal.any([signal, patience]) : patience;
  try {
    return await fetch(path, { ...options, signal: both, credentials: "same-origin", redirect: "error" });
  } catch (error) {
    if (signal && signal.aborted) throw error;
    if (patience.aborted) throw new Refusal("slow", "The server has not answered in time.", "Try again.");
    throw new Refusal("gone", "The server cannot be reached.", "Look whether “bucketlake ui” still runs.");
  }
}

export async function ask(question, parameters = {}, signal = null) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given.map(([key, value]) => [key, String(value)]));
  return told(await send(`/api/${question}?${query}`, {}, signal));
}

export async function session() {
  const found = await ask("session");
  csrf = found.csrf;
  return found;
}

export async function change(path, given) {
  const texts = Object.fromEntries(Object.entries(given).filter(([, v]) => v !== null && v !== undefined && v !== "").map(([k, v]) => [k, String(v)]));
  const headers = { "content-type": "application/json", "x-csrf-token": csrf };
  return told(await send(`/api/${path}`, { method: "POST", headers, body: JSON.stringify(texts) }));
}
