// Runs beside each other.

import { ask, count, duration, figure, h, link, notation, pace, put, state } from "./dom.js";
import { improvement } from "./plot.js";

export function comparePage(ids) {
  const element = h("div"), choices = h("div", { class: "controls" }), place = h("figure", { class: "wide-figure" }), tables = h("div");
  let column = "", log = false, before = "";
  put(element, h("h1", null, `${ids.length} runs`), h("p", { class: "sub" }, "The best so far of each, their numbers, and what was asked of them."), choices, place, tables);

  function chart(found) {
    const names = found.columns.map((each) => each.name);
    if (!names.length) { put(choices); put(place, h("p", { class: "empty" }, "These runs have no column in common.")); return; }
    if (!names.includes(column)) [column] = names;
    const pick = h("select", { change: (event) => { column = event.target.value; chart(found); } }, names.map((name) => h("option", { value: name }, name)));
    pick.value = column;
    const box = h("input", { type: "checkbox", change: (event) => { log = event.target.checked; chart(found); } });
    box.checked = log;
    put(choices, h("label", null, "Column", pick), h("label", { class: "line" }, box, "log"));
    const series = found.runs.map((run, at) => ({ name: run.id, points: found.curves[at][column] }));
    put(place, improvement(series, { x: "candidates", y: column }, { x: false, y: log }), h("figcaption", null, `The best ${column} among all candidates up to each.`));
  }

  function numbers(found) {
    const rows = [
      ["state", (run) => state(run.progress)], ["candidates", (run) => count(run.progress)], ["time", (run) => duration(run.progress.seconds)],
      ["pace", (run) => pace(run.progress)], ["failures", (run) => figure(run.failures)],
      ["best", (run) => (run.best ? `${figure(run.best.value)}, ${run.best.words}` : "–")], ["its architecture", (run) => (run.best ? notation(run.best.arch) : "–")],
      ...found.columns.map((each) => [`best ${each.name}`, (run, at) => figure(found.curves[at][each.name].at(-1)[1])]),
    ];
    return h("div", { class: "scroll" }, h("table", { class: "settings" }, heads(found), h("tbody", null, rows.map(([name, cell]) => h("tr", null, h("th", { scope: "row" }, name), found.runs.map((run, at) => h("td", null, cell(run, at))))))));
  }

  const heads = (found) => h("thead", null, h("tr", null, h("th"), found.runs.map((run) => h("th", { scope: "col" }, h("a", { href: link("run", { id: run.id }) }, run.id)))));

  function overlap(found) {
    const cell = (i, j) => (i === j ? "–" : `${found.top[i][j]} · ${found.shared[i][j].toLocaleString("en")}`);
    return h("div", { class: "scroll" }, h("table", { class: "settings" }, heads(found), h("tbody", null, found.runs.map((run, i) => h("tr", null, h("th", { scope: "row" }, run.id), found.runs.map((_, j) => h("td", null, cell(i, j))))))));
  }

  function settings(found) {
    return h("div", { class: "scroll" }, h("table", { class: "settings" }, heads(found), h("tbody", null, found.settings.map((line) => h("tr", null, h("th", { scope: "row" }, line.name.replaceAll("_", " ")), line.values.map((value) => h("td", { class: line.differs ? "differs" : null }, value === "" ? "–" : value)))))));
  }

  async function refresh() {
    const found = await ask("/api/compare", { id: ids });
    const now = JSON.stringify(found);
    if (now !== before) {
      before = now;
      chart(found);
      put(tables, h("h3", null, "Numbers"), numbers(found), h("h3", null, "Agreement"), h("p", { class: "soft" }, `Architectures among the ${found.tops} best of both, and among all candidates of both.`), overlap(found), h("h3", null, "Settings"), h("p", { class: "soft" }, "Those that differ stand first."), settings(found));
    }
    return found.runs.some((run) => run.progress.state === "running") ? 2000 : 6000;
  }

  return { element, refresh, title: "Comparison", crumbs: [h("a", { href: link("") }, "Runs"), " / comparison"] };
}
