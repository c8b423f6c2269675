// Which page is shown, and when it asks again.

import { h, link, note, place, put } from "./dom.js";
import { closeArch } from "./drawing.js";
import { listPage } from "./list.js";
import { runPage } from "./run.js";
import { comparePage } from "./compare.js";

const main = document.getElementById("main"), crumbs = document.getElementById("crumbs");
const pulse = document.getElementById("pulse"), tip = document.getElementById("tip");
let shown = null, timer = 0, turn = 0;

function pageFor({ view, query }) {
  if (view === "run") return runPage(query.get("id") || "");
  if (view === "compare") return comparePage(query.getAll("id"));
  return listPage();
}

async function look(mine) {
  clearTimeout(timer);
  let again = 5000;
  try {
    again = await shown.refresh();
    if (mine !== turn) return;
    pulse.className = "";
    put(pulse, again <= 2000 ? "live" : "");
  } catch (error) {
    if (mine !== turn) return;
    if (error instanceof TypeError) {
      pulse.className = "lost";
      put(pulse, "the server does not answer");
    } else {
      put(shown.element, note(error.message, true), h("p", null, h("a", { href: link("") }, "All runs")));
      timer = setTimeout(() => { shown = null; go(); }, again);
      return;
    }
  }
  timer = setTimeout(() => look(mine), document.hidden ? 10000 : again);
}

// What an address is about: the same page is not made anew for another tab of it, or for an architecture.
function subject({ view, query }) {
  return JSON.stringify([view, query.getAll("id")]);
}

function go() {
  const now = place();
  if (shown && shown.moved && shown.subject === subject(now)) { shown.moved(now.query).catch(() => look(turn)); return; }
  closeArch();
  turn += 1;
  shown = pageFor(now);
  shown.subject = subject(now);
  put(main, shown.element);
  put(crumbs, shown.crumbs || []);
  document.title = shown.title ? `${shown.title} · trainless` : "trainless";
  window.scrollTo(0, 0);
  look(turn);
}

function point(event) {
  const mark = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
  if (!mark) { tip.style.opacity = 0; return; }
  tip.textContent = mark.getAttribute("data-tip");
  tip.style.opacity = 1;
  const x = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  const below = event.clientY + 16 + tip.offsetHeight <= window.innerHeight - 6;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${below ? event.clientY + 16 : event.clientY - tip.offsetHeight - 10}px`;
}

document.addEventListener("pointermove", point);
document.addEventListener("scroll", () => { tip.style.opacity = 0; }, true);
document.addEventListener("visibilitychange", () => { if (!document.hidden) look(turn); });
window.addEventListener("hashchange", go);
go();
