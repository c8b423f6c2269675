// One architecture, drawn, with its numbers.

import { figure, h, put } from "./dom.js";

const dialog = document.getElementById("drawing");

export function openArch(run, row, columns) {
  const source = `/api/drawing?${new URLSearchParams({ id: run.id, arch: row.arch })}`;
  const picture = h("img", { alt: `Drawing of ${row.arch}`, src: source });
  const cell = h("div", { class: "cell" }, picture);
  picture.addEventListener("error", () => put(cell, "This architecture cannot be drawn here."));
  const close = h("button", { class: "push", click: () => dialog.close(), "aria-label": "Close" }, "Close");
  const head = [row.rank ? `Rank ${row.rank.toLocaleString("en")}` : null, row.name || null].filter(Boolean).join(" · ");
  const numbers = columns.map((column, place) => h("div", null, h("dt", null, column.name), h("dd", null, figure(row.values[place]))));
  put(dialog, h("div", { class: "top" }, h("h2", null, head || "Architecture"), close),
    run.drawn ? cell : h("p", { class: "note" }, "Its space is code of the user's own, which is not run here."),
    h("dl", null, numbers), row.status === "ok" ? null : h("p", { class: "bad" }, row.status),
    h("p", null, h("code", null, row.arch)));
  if (!dialog.open) dialog.showModal();
}

dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
