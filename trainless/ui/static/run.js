// One run: how far it is, and its tabs.

import { ago, arrows, ask, bar, broken, count, duration, figure, h, link, notation, pace, place as address, put, state } from "./dom.js";
import { closeArch, openArch, showArch } from "./drawing.js";
import { filters, leaderboardTab } from "./leaderboard.js";
import { improvement, scatter } from "./plot.js";

function select(names, value, changed) {
  const found = h("select", { change: changed }, names.map((name) => h("option", { value: name }, name)));
  if (names.includes(value)) found.value = value;
  return found;
}

function tick(words, changed) {
  const box = h("input", { type: "checkbox", change: changed });
  return [box, h("label", { class: "line" }, box, words)];
}

function scatterTab() {
  let run = null, x = null, y = null;
  const [logX, labelX] = tick("log x", () => load()), [logY, labelY] = tick("log y", () => load());
  const filter = filters(() => load()), choices = h("div", { class: "controls" }), place = h("figure", { class: "wide-figure" });
  const element = h("div", null, choices, filter.element, place);
  async function load() {
    if (!run.columns.length) { put(place, h("p", { class: "empty" }, "No architecture was scored yet.")); return; }
    const found = await ask("/api/points", { id: run.id, x: x.value, y: y.value, ...filter.values() });
    const pick = (arch) => showArch({ arch });
    const { chart, shown } = scatter(found.points, { x: x.value, y: y.value }, { x: logX.checked, y: logY.checked }, found.ranked, pick);
    const said = [`${shown.toLocaleString("en")} of ${found.all.toLocaleString("en")} candidates`, found.ranked ? "the ten best stand out" : null, "choose a point to see its architecture"];
    put(place, shown ? chart : h("p", { class: "empty" }, "No candidate has both values."), h("figcaption", null, `${said.filter(Boolean).join("; ")}.`));
  }
  return {
    element,
    async update(about) {
      const names = about.columns.map((column) => column.name).join("\n");
      if (!run || run.columns.map((column) => column.name).join("\n") !== names) {
        const all = about.columns.map((column) => column.name);
        x = select(all, x ? x.value : all[1] || all[0], () => load());
        y = select(all, y ? y.value : all[0], () => load());
        put(choices, h("label", null, "Across", x), h("label", null, "Upward", y), labelX, labelY);
        filter.columns(about.columns);
      }
      run = about;
      await load();
    },
  };
}

function improvementTab() {
  let run = null, column = null;
  const [log, label] = tick("log", () => load());
  const choices = h("div", { class: "controls" }), place = h("figure", { class: "wide-figure" }), element = h("div", null, choices, place);
  async function load() {
    if (!run.curves.length) { put(place, h("p", { class: "empty" }, "No architecture was scored yet.")); return; }
    const found = await ask("/api/curve", { id: run.id, column: column.value });
    const names = { x: run.progress.unit, y: column.value };
    put(place, found.points.length ? improvement([{ name: column.value, points: found.points }], names, { x: false, y: log.checked }) : h("p", { class: "empty" }, "No candidate has this value yet."),
      h("figcaption", null, `The ${found.up ? "highest" : "lowest"} ${column.value} among all candidates up to each.`));
  }
  return {
    element,
    async update(about) {
      run = about;
      column = select(run.curves, column ? column.value : run.curves[0], () => load());
      put(choices, h("label", null, "Column", column), label);
      await load();
    },
  };
}

function failuresTab() {
  const element = h("div");
  return {
    element,
    async update(about) {
      const found = await ask("/api/failures", { id: about.id });
      if (!found.total) { put(element, h("p", { class: "empty" }, "Nothing failed.")); return; }
      const reasons = found.reasons.map((each) => h("tr", null, h("td", { class: "n" }, each.times.toLocaleString("en")), h("td", null, each.column), h("td", { class: "status" }, each.reason)));
      const last = found.last.map((each) => h("tr", null, h("td", { class: "arch" }, notation(each.arch)), h("td", null, each.column), h("td", { class: "status bad" }, each.reason)));
      const head = (...names) => h("thead", null, h("tr", null, names.map((name) => h("th", { scope: "col" }, name))));
      put(element, h("h3", null, "By reason"), h("div", { class: "scroll" }, h("table", { class: "rows" }, head("times", "column", "reason"), h("tbody", null, reasons))),
        h("h3", null, `The last ${last.length.toLocaleString("en")} of ${found.total.toLocaleString("en")}, newest first`),
        h("div", { class: "scroll" }, h("table", { class: "rows" }, head("architecture", "column", "reason"), h("tbody", null, last))));
    },
  };
}

function settingsTab() {
  const element = h("div");
  return {
    element,
    async update(about) {
      put(element, h("div", { class: "scroll" }, h("table", { class: "settings" }, h("tbody", null, about.settings.map(([name, value]) => h("tr", null, h("th", { scope: "row" }, name.replaceAll("_", " ")), h("td", null, value)))))));
    },
  };
}

function searchesTab() {
  const element = h("div");
  return {
    element,
    async update(about) {
      put(element, h("p", { class: "soft" }, "Each search is a run of its own."), h("ul", null, about.below.map((id) => h("li", null, h("a", { href: link("run", { id }) }, id)))),
        about.below.length > 1 ? h("p", null, h("a", { class: "button", href: link("compare", { id: about.below.slice(0, 8) }) }, "Compare them")) : null);
    },
  };
}

function facts(run) {
  const { progress } = run, going = progress.state === "running";
  const fact = (value, name, detail, more, kind) => h("div", { class: kind ? `fact ${kind}` : "fact" }, h("b", null, value), h("span", null, name), detail ? h("i", { title: detail }, broken(detail)) : null, more);
  return [
    fact(count(progress), progress.unit, progress.detail, progress.stages.length ? null : bar(progress)),
    progress.rate === null && !going ? null : fact(pace(progress), going ? "pace of the last minute" : "mean pace", going ? `${duration(progress.seconds)} so far` : ""),
    going ? fact(duration(progress.left), progress.scope ? `left ${progress.scope}` : "left at this pace", `last result ${ago(progress.changed)}`) : fact(duration(progress.seconds), "of wall time", ago(progress.changed)),
    run.best ? fact(figure(run.best.value), run.best.words, run.best.arch, null, "best") : fact("–", "best", "nothing scored yet"),
    run.failures || !run.unscored ? fact(run.failures.toLocaleString("en"), run.failures === 1 ? "failure" : "failures", run.failures ? "reasons below" : "all scored", null, run.failures ? "bad" : null)
      : fact(run.unscored.toLocaleString("en"), run.unscored === 1 ? "score that a network has not" : "scores that networks have not", "such as of dead ones; reasons below"),
  ];
}

// What a design came to: the answer first, in the words of the terminal and the report.
function verdict(answer) {
  if (!answer) return null;
  return h("div", { class: `note ${answer.ok ? "good" : "bad alarm"}`, role: answer.ok ? "status" : "alert" }, h("b", null, answer.ok ? "✓ " : "⚠ ", answer.first), answer.then ? h("div", null, answer.then) : null, answer.lines.map((line) => h("div", null, line.trim())));
}

function answerTab() {
  const element = h("div");
  return {
    element,
    async update(about) {
      const grid = (table) => [h("h3", null, table.title), h("div", { class: "scroll" }, h("table", null, h("thead", null, h("tr", null, table.head.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", null, table.rows.map(([name, ...cells]) => h("tr", null, h("th", { scope: "row" }, name), cells.map((cell) => h("td", { class: "num" }, cell)))))))];
      put(element, about.answer ? about.answer.tables.map(grid) : h("p", { class: "empty" }, "It is not finished, or the data have no test part."));
    },
  };
}

function stages(progress) {
  return progress.stages.map((stage) => h("div", null, h("small", null, h("span", null, stage.name), h("span", null, `${figure(Math.round(stage.done * 100) / 100)} of ${figure(stage.total)}`)), h("progress", { max: stage.total, value: stage.done, "aria-label": stage.name })));
}

export function runPage(id) {
  const heading = h("div", { class: "top" }), about = h("p", { class: "sub" }), numbers = h("div", { class: "facts" }), said = h("div");
  const parts = h("div", { class: "stages" }), bar_ = arrows(h("div", { class: "tabs", role: "tablist" }), "button", ["ArrowLeft", "ArrowRight"]), place = h("div", { role: "tabpanel" });
  const element = h("div", null, heading, about, said, numbers, parts, bar_, place);
  put(about, "Reading…");
  const tabs = { answer: answerTab(), leaderboard: leaderboardTab(), plot: scatterTab(), progress: improvementTab(), failures: failuresTab(), settings: settingsTab(), searches: searchesTab() };
  const seen = {}, wanted = address().query.get("tab") || "";
  let open = wanted in tabs ? wanted : "", run = null, first = true;

  async function show(name) {
    open = name;
    history.replaceState(null, "", link("run", { id, tab: name }));
    settle();
    await update();
  }

  function drawTabs() {
    const titles = run.answer ? { answer: ["Answer"] } : {};
    Object.assign(titles, { leaderboard: [run.kind === "design" ? "Members" : "Leaderboard", run.rows], plot: ["Scatter"], progress: ["Best so far"], failures: [run.unscored && !run.failures ? "Without a score" : "Failures", run.failures + run.unscored], settings: ["Settings"] });
    if (run.below.length) titles.searches = ["Searches", run.below.length];
    if (!(open in titles)) open = "leaderboard";
    const now = JSON.stringify([open, titles]);
    if (bar_.dataset.now === now) return;
    bar_.dataset.now = now;
    const focused = bar_.contains(document.activeElement);
    put(bar_, Object.entries(titles).map(([name, [words, number]]) => h("button", { role: "tab", "aria-selected": String(name === open), "data-tab": name, tabindex: name === open ? 0 : -1, click: () => show(name) }, words, number ? h("span", null, number.toLocaleString("en")) : null)));
    if (focused) bar_.querySelector("[aria-selected=true]").focus();
  }

  const usual = () => (run.answer ? "answer" : run.kind === "design" && !run.rows && run.below.length ? "searches" : "leaderboard");

  // The address names an architecture, or none any more, or another tab.
  async function moved(query) {
    if (!run) return;
    const tab = query.get("tab") || usual(), arch = query.get("arch"), name = query.get("name");
    if (tab !== open && tab in tabs) { open = tab; settle(); await update(); }
    if (!arch) { closeArch(); return; }
    const found = await ask("/api/rows", { id: run.id, words: (name ? `${name} ${arch}` : arch).slice(0, 900), count: 50 });
    const row = found.rows.find((each) => each.arch === arch && (!name || each.name === name));
    if (row && address().query.get("arch") === arch) openArch(run, row, run.columns);
  }

  function settle() {
    drawTabs();
    if (place.firstChild !== tabs[open].element) put(place, tabs[open].element);
  }

  async function update() {
    const mark = `${run.version}/${run.failures}/${run.progress.state}`;
    if (seen[open] === mark) return;
    seen[open] = mark;
    await tabs[open].update(run);
  }

  async function refresh() {
    run = await ask("/api/run", { id });
    put(heading, h("h1", null, id === "." ? "This run" : id), state(run.progress), run.report ? h("a", { class: "button push", href: `/report?${new URLSearchParams({ id })}`, target: "_blank", rel: "noopener" }, "Open the report") : null);
    const classes = run.answer ? run.answer.classes.join(" / ") : "";
    put(about, [run.kind, run.what, run.space, run.task, classes].filter(Boolean).join(" · "));
    put(said, verdict(run.answer));
    put(numbers, facts(run));
    numbers.className = `facts ${run.progress.state}`;
    parts.className = `stages ${run.progress.state}`;
    put(parts, stages(run.progress));
    parts.hidden = !run.progress.stages.length;
    if (!open) open = usual();
    settle();
    await update();
    if (first) { first = false; await moved(address().query); }
    return run.progress.state === "running" ? 1000 : 5000;
  }

  return { element, refresh, moved, title: id, crumbs: [h("a", { href: link("") }, "Runs"), " / ", id === "." ? "this run" : id] };
}
