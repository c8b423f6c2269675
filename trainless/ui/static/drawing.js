// One architecture, drawn, with its numbers; it is open as long as the address names it.

import { figure, h, link, notation, place, put } from "./dom.js";

const dialog = document.getElementById("drawing");
let ours = false; // whether the address before this one was of the same page

export function showArch(row) {
  const { query } = place();
  ours = true;
  location.hash = link("run", { id: query.get("id") || "", ...(query.get("tab") ? { tab: query.get("tab") } : {}), arch: row.arch, ...(row.name ? { name: row.name } : {}) });
}

export function closeArch() {
  if (dialog.open) dialog.close();
}

export function openArch(run, row, columns) {
  const source = `/api/drawing?${new URLSearchParams({ id: run.id, arch: row.arch })}`;
  const picture = h("img", { alt: `Drawing of ${row.arch}`, src: source });
  const cell = h("div", { class: "cell" }, picture);
  picture.addEventListener("error", () => put(cell, "This architecture cannot be drawn here."));
  const close = h("button", { class: "push", click: closeArch, "aria-label": "Close" }, "Close");
  const head = [row.rank ? `Rank ${row.rank.toLocaleString("en")}` : null, row.name || null].filter(Boolean).join(" · ");
  const numbers = columns.map((column, at) => h("div", null, h("dt", null, column.name), h("dd", null, figure(row.values[at]))));
  put(dialog, h("div", { class: "top" }, h("h2", null, head || "Architecture"), close),
    run.drawn ? cell : h("p", { class: "note" }, "Its space is code of the user's own, which is not run here."),
    h("dl", null, numbers), row.status === "ok" ? null : h("p", { class: "bad" }, row.status),
    h("p", null, notation(row.arch)));
  if (!dialog.open) dialog.showModal();
}

dialog.addEventListener("click", (event) => { if (event.target === dialog) closeArch(); });
dialog.addEventListener("close", () => {
  const { view, query } = place(), back = ours;
  ours = false;
  if (!query.has("arch")) return; // the address has changed already
  if (back) { history.back(); return; }
  query.delete("arch");
  query.delete("name");
  history.replaceState(null, "", link(view, Object.fromEntries(query)));
});
