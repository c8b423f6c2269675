// The leaderboard: sorted and filtered where the runs are read, page by page.

import { arrows, ask, figure, h, notation, put } from "./dom.js";
import { showArch } from "./drawing.js";

const PAGE = 50;

export function filters(changed) {
  const words = h("input", { type: "search", placeholder: "Words in the architecture", input: () => changed() });
  const kept = h("select", { change: () => changed() }, h("option", { value: "all" }, "all"), h("option", { value: "ok" }, "scored"), h("option", { value: "failed" }, "failed"));
  const column = h("select", { change: () => changed() });
  const low = h("input", { type: "number", step: "any", input: () => changed() });
  const high = h("input", { type: "number", step: "any", input: () => changed() });
  const label = (name, part, kind) => h("label", { class: kind || null }, name, part);
  const element = h("div", { class: "controls" }, label("Filter", words, "grow"), label("Which", kept), label("Column", column), label("At least", low), label("At most", high));
  return {
    element,
    columns(found) {
      const held = column.value;
      put(column, found.map((each) => h("option", { value: each.name }, each.name)));
      if (found.some((each) => each.name === held)) column.value = held;
    },
    values() {
      const number = (input) => (input.value === "" || Number.isNaN(input.valueAsNumber) ? null : input.valueAsNumber);
      const bounds = [number(low), number(high)];
      const where = bounds[0] === null && bounds[1] === null ? [] : [[column.value, ...bounds]];
      return { words: words.value, kept: kept.value, where: JSON.stringify(where) };
    },
  };
}

export function leaderboardTab() {
  let run = null, by = null, descending = false, offset = 0, asked = 0;
  const filter = filters(() => { offset = 0; load(); });
  const head = h("thead"), body = arrows(h("tbody"), "td.arch button", ["ArrowUp", "ArrowDown"]), pages = h("div", { class: "pages" });
  const element = h("div", null, filter.element, h("div", { class: "scroll" }, h("table", { class: "rows" }, head, body)), pages);

  function sort(name, first) {
    if (by === name) descending = !descending; else { by = name; descending = first; }
    offset = 0;
    drawHead();
    load();
  }

  function title(name, key, first, kind, better) {
    const order = by === key ? (descending ? "descending" : "ascending") : "none";
    return h("th", { class: kind, scope: "col", "aria-sort": order }, h("button", { class: "plain", click: () => sort(key, first) }, name), better);
  }

  function drawHead() {
    const better = (up) => (up === null ? null : h("span", { class: "better", title: up ? "higher is better" : "lower is better" }, up ? " ▲" : " ▼"));
    put(head, h("tr", null, run.ranked ? title("rank", "", false, "n") : null, run.named ? title("name", "name", false) : null, title("architecture", "arch", false),
      run.columns.map((column) => title(column.name, column.name, column.up !== false, "n", better(column.up))), title("status", "status", true)));
  }

  function line(row) {
    return h("tr", null, run.ranked ? h("td", { class: "n" }, figure(row.rank)) : null, run.named ? h("td", null, row.name) : null,
      h("td", { class: "arch" }, h("button", { class: "plain", click: () => showArch(row) }, notation(row.arch))),
      row.values.map((value) => h("td", { class: "n" }, figure(value))),
      h("td", { class: row.status === "ok" ? "status" : "status bad" }, row.status));
  }

  async function load() {
    const mine = ++asked;
    const found = await ask("/api/rows", { id: run.id, ...filter.values(), by: by || "", descending, offset, count: PAGE });
    if (mine !== asked) return;
    put(body, found.rows.length ? found.rows.map(line) : h("tr", null, h("td", { class: "empty", colspan: run.columns.length + 4 }, found.all ? "No candidate fits the filter." : run.kind === "design" ? "No member is trained yet." : "No architecture was scored yet.")));
    const last = Math.min(offset + PAGE, found.left);
    const turn = (by_, words, off) => h("button", { disabled: off, click: () => { offset += by_; load(); } }, words);
    put(pages, turn(-PAGE, "Previous", offset === 0), turn(PAGE, "Next", last >= found.left),
      h("span", { id: "shown" }, found.left ? `${(offset + 1).toLocaleString("en")} to ${last.toLocaleString("en")} of ${found.left.toLocaleString("en")}${found.left < found.all ? ` that fit, of ${found.all.toLocaleString("en")}` : ""}` : ""));
  }

  return {
    element,
    async update(about) {
      if (by === null && about.columns.length && about.rows) {  // without an order of its own, the best by the first column come first
        by = about.ranked ? "" : about.columns[0].name;
        descending = !about.ranked && about.columns[0].up !== false;
      }
      run = about;
      if (by && !["arch", "name", "status"].includes(by) && !run.columns.some((column) => column.name === by)) by = "";
      filter.columns(run.columns);
      drawHead();
      await load();
    },
  };
}
