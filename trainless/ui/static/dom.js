// Elements made of nodes, never of markup: whatever a run says stands on the page as text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

export function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function s(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

export function put(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function link(view, values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values || {})) for (const each of [value].flat()) query.append(name, each);
  const text = query.toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

// The view that the address names, and what it says about it.
export function place() {
  const [view, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { view, query: new URLSearchParams(query || "") };
}

// Arrow keys move the focus among elements that stand beside or below each other.
export function arrows(element, selector, [back, on]) {
  element.addEventListener("keydown", (event) => {
    const all = [...element.querySelectorAll(selector)], at = all.indexOf(document.activeElement);
    const to = { [back]: at - 1, [on]: at + 1, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to === undefined || !all[to]) return;
    event.preventDefault();
    all[to].focus();
  });
  return element;
}

export async function ask(path, values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values || {})) for (const each of [value].flat()) query.append(name, each);
  const answer = await fetch(`${path}?${query}`, { headers: { accept: "application/json" } });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.problem || `the server said ${answer.status}`);
  return found;
}

// A number as the report writes it; the server writes infinities as text.
export function figure(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value.startsWith("-") ? "−∞" : "∞";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return value.toLocaleString("en");
  if (size && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace("e+", "e");
  return value.toLocaleString("en", { maximumFractionDigits: size < 1000 ? 4 : 1 });
}

// A metric of the test part, to three digits as everywhere else.
export function metric(value) {
  return typeof value === "number" ? value.toFixed(3) : "–";
}

// A notation of an architecture, whose lines break after commas.
export function notation(text) {
  return h("code", null, broken(text));
}

export function broken(text) {
  return text.split(/(?<=,)/).flatMap((part) => [part, h("wbr")]);
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || typeof seconds === "string") return "–";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(seconds < 1200 ? 1 : 0).replace(/\.0$/, "")} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1).replace(/\.0$/, "")} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export function ago(when) {
  const seconds = Date.now() / 1000 - when;
  if (!when) return "";
  return seconds < 5 ? "just now" : `${duration(seconds)} ago`;
}

export function pace(progress) {
  return progress.rate === null ? "–" : `${figure(Number(progress.rate.toPrecision(3)))}/s`;
}

export function count(progress) {
  const done = progress.done.toLocaleString("en");
  return progress.total ? `${done} of ${progress.total.toLocaleString("en")}` : done;
}

export function state(progress) {
  return h("span", { class: `state ${progress.state}`, title: progress.meaning }, progress.state);
}

export function bar(progress) {
  if (progress.stages.length) {
    const done = progress.stages.reduce((sum, stage) => sum + stage.done / stage.total, 0);
    return h("progress", { max: progress.stages.length, value: done, "aria-label": "stages done" });
  }
  const known = progress.total || (progress.state === "running" ? null : Math.max(1, progress.done));
  return h("progress", { max: known || 1, value: known ? Math.min(progress.done, known) : null, "aria-label": "done" });
}

export function note(words, bad) {
  return h("p", { class: bad ? "note bad" : "note" }, words);
}
