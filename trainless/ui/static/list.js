// All runs: how far each is, its best, and which of them to compare.

import { ago, arrows, ask, bar, count, duration, figure, h, link, metric, pace, put, state } from "./dom.js";

const chosen = new Set(), unfolded = new Set();

// Links may lead out of the folder that is served, so they are named and not followed.
function leftOut(links) {
  const more = links.length > 5 ? ` and ${(links.length - 5).toLocaleString("en")} more` : "";
  const named = links.slice(0, 5).join(", ") + more;
  return `Not shown, because ${links.length === 1 ? "it is a link" : "they are links"} to another folder: ${named}. Serve that folder itself to see its runs.`;
}

export function listPage() {
  const heading = h("h1", null, "Runs"), where = h("p", { class: "sub" }), list = arrows(h("ul", { class: "runs" }), ".who a", ["ArrowUp", "ArrowDown"]);
  put(where, "Reading…");
  const compare = h("button", { class: "main", disabled: true, click: () => { location.hash = link("compare", { id: [...chosen] }); } }, "Compare");
  const search = h("input", { type: "search", placeholder: "Find a run", "aria-label": "Find a run", input: () => draw() });
  const top = h("div", { class: "top" }, heading, h("div", { class: "push controls" }, search, compare));
  const skipped = h("p", { class: "sub", hidden: true }), unread = h("details", { hidden: true });
  const element = h("div", null, top, where, list, unread, skipped);
  let runs = [], before = "";

  function choose(id, on) {
    if (on) chosen.add(id); else chosen.delete(id);
    compare.disabled = chosen.size < 2 || chosen.size > 8;
    compare.textContent = chosen.size ? `Compare ${chosen.size}` : "Compare";
  }

  const below = (run, other) => other !== run && (run.id === "." || other.id.startsWith(`${run.id}/`));
  const parents = (run) => (run.id === "." ? [] : runs.filter((other) => other.kind === "design" && below(other, run)));

  // A design's searches are runs, too, and are shown below it when it is unfolded.
  function fold(run) {
    const count = run.kind === "design" ? runs.filter((other) => below(run, other)).length : 0;
    if (!count) return null;
    const open = unfolded.has(run.id);
    const turn = () => { if (open) unfolded.delete(run.id); else unfolded.add(run.id); draw(); };
    return h("button", { class: "plain fold", "aria-expanded": String(open), "aria-label": `Searches of ${run.id}`, click: turn }, `${open ? "▾" : "▸"} ${count} ${count === 1 ? "search" : "searches"}`);
  }

  function line(run) {
    const depth = parents(run).length;
    const name = h("a", { href: link("run", { id: run.id }) }, run.id === "." ? "this run" : run.id);
    if (run.problem) {
      return h("li", { class: depth ? "child" : null }, h("span"), h("div", { class: "who" }, h("b", null, run.id), h("small", { class: "bad" }, run.problem)));
    }
    const kind = [run.kind, run.what, run.space, run.task].filter(Boolean).join(" · ");
    if (run.unread) {
      return h("li", { class: depth ? "child" : null }, h("span"), h("div", { class: "who" }, name, h("small", null, kind)),
        h("div", { class: "bar-cell num" }, h("small", null, "reading…")));
    }
    const tick = h("input", { type: "checkbox", "aria-label": `Compare ${run.id}`, change: (event) => choose(run.id, event.target.checked) });
    tick.checked = chosen.has(run.id);
    const { progress } = run;
    const said = [`${count(progress)} ${progress.unit}`, progress.rate === null ? null : pace(progress),
      progress.state === "running" && progress.left !== null ? `left ${duration(progress.left)}` : duration(progress.seconds)];
    return h("li", { class: `${progress.state}${depth ? " child" : ""}` }, tick,
      h("div", { class: "who" }, name, h("small", null, kind, run.answer && run.answer.classes.length ? ` · ${run.answer.classes.join(" / ")}` : null), fold(run)),
      h("div", { class: "bar-cell num" }, bar(progress), h("small", null, said.filter(Boolean).join(" · "))),
      h("div", { class: "best-cell num" }, result(run)),
      h("div", { class: "tail" }, state(progress), h("small", null, run.failures ? `${run.failures.toLocaleString("en")} failed` : ago(progress.changed))));
  }

  function result(run) {
    if (run.answer && run.answer.figure) return [metric(run.answer.figure.value), h("small", null, `${run.answer.figure.metric} on the test part`), run.answer.ok ? null : h("small", { class: "bad" }, `⚠ ${run.answer.verdict}`)];
    return run.best ? [figure(run.best.value), h("small", null, run.best.words)] : h("small", null, "nothing yet");
  }

  function draw() {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const sound = runs.filter((run) => !run.problem), broken = runs.filter((run) => run.problem);
    const shown = wanted.length ? sound : sound.filter((run) => parents(run).every((parent) => unfolded.has(parent.id)));
    const left = shown.filter((run) => wanted.every((word) => JSON.stringify([run.id, run.kind, run.what, run.space, run.task]).toLowerCase().includes(word)));
    const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") || document.activeElement.getAttribute("href") : null;
    put(unread, broken.length ? [h("summary", null, `${broken.length.toLocaleString("en")} ${broken.length === 1 ? "folder looks like a run and cannot" : "folders look like runs and cannot"} be read`), h("ul", { class: "runs" }, broken.map(line))] : []);
    unread.hidden = !broken.length;
    put(list, left.length ? left.map(line) : h("li", { class: "empty" }, runs.length ? "No run fits." : "No runs yet: this page sees them as soon as they begin."));
    if (focused) [...list.querySelectorAll("a,input,button")].find((each) => (each.getAttribute("aria-label") || each.getAttribute("href")) === focused)?.focus();
  }

  async function refresh() {
    const found = await ask("/api/runs");
    runs = found.runs;
    for (const id of [...chosen]) if (!runs.some((run) => run.id === id)) chosen.delete(id);
    choose(null, false);
    const now = JSON.stringify(found);
    put(where, found.title);
    skipped.hidden = !found.skipped.length;
    put(skipped, leftOut(found.skipped));
    if (now !== before || !list.children.length) { before = now; draw(); }
    if (runs.some((run) => run.unread)) return 50;
    return runs.some((run) => run.progress && run.progress.state === "running") ? 1500 : 4000;
  }

  return { element, refresh, title: "Runs", crumbs: [] };
}
