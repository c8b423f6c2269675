// Charts in the report's palette: points of a plane, and how the best improved.

import { figure, h, s } from "./dom.js";

const LEFT = 74, RIGHT = 18, TOP = 14, BOTTOM = 50;
let WIDTH = 760, HEIGHT = 420;

// In a narrow window a drawing has fewer units, so that its words stay readable.
function fit() {
  [WIDTH, HEIGHT] = window.innerWidth < 600 ? [400, 320] : [820, 430];
}

function range(values, log) {
  const found = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  if (!found.length) return log ? [0.1, 1] : [0, 1];
  let low = found[0], high = found[0];
  for (const value of found) { if (value < low) low = value; if (value > high) high = value; }
  if (log) return [low / 1.2, high * 1.2];
  if (low === high) { const reach = Math.abs(low) * 0.1 || 1; return [low - reach, high + reach]; }
  const pad = 0.05 * (high - low);
  return [low - pad, high + pad];
}

function ticks(low, high, log) {
  if (log) {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    if (last > first) {
      const apart = Math.max(1, Math.ceil((last - first) / 6)), found = [];
      for (let power = first; power <= last; power += apart) found.push(10 ** power);
      return found;
    }
  }
  const rough = (high - low) / (WIDTH < 600 ? 4 : 6), size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => size * factor).find((each) => each >= rough * (1 - 1e-9));
  const found = [];
  for (let place = Math.ceil(low / step - 1e-9); place <= Math.floor(high / step + 1e-9); place++) found.push(place * step);
  return found;
}

function words(value) {
  const size = Math.abs(value);
  if (!value) return "0";
  const text = size >= 1e5 || size < 1e-3 ? value.toExponential(0).replace("e+", "e") : String(Number(value.toPrecision(5)));
  return text.replace("-", "−");
}

function scale(low, high, start, stop, log) {
  const of = (value) => (log ? Math.log10(value) : value);
  return (value) => start + ((of(value) - of(low)) / (of(high) - of(low))) * (stop - start);
}

function plane(xs, ys, names, logs) {
  fit();
  const [x0, x1] = range(xs, logs.x), [y0, y1] = range(ys, logs.y);
  const x = scale(x0, x1, LEFT, WIDTH - RIGHT, logs.x), y = scale(y0, y1, HEIGHT - BOTTOM, TOP, logs.y);
  const text = (at, up, said, extra) => s("text", { x: at, y: up, "font-size": 12, "dominant-baseline": "central", ...extra }, said);
  const marks = [];
  for (const value of ticks(y0, y1, logs.y)) {
    marks.push(s("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value), class: "grid" }));
    marks.push(text(LEFT - 8, y(value), words(value), { "text-anchor": "end" }));
  }
  for (const value of ticks(x0, x1, logs.x)) {
    marks.push(s("line", { x1: x(value), x2: x(value), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4, class: "axis" }));
    marks.push(text(x(value), HEIGHT - BOTTOM + 16, words(value), { "text-anchor": "middle" }));
  }
  marks.push(s("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM, class: "axis" }));
  const middle = (HEIGHT - BOTTOM + TOP) / 2;
  marks.push(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, names.x, { "text-anchor": "middle", class: "title" }));
  marks.push(text(14, middle, names.y, { "text-anchor": "middle", class: "title", transform: `rotate(-90 14 ${middle})` }));
  return { x, y, marks };
}

function drawn(title, ...marks) {
  return s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img" }, s("title", null, title), marks);
}

// points: [x, y, arch, place]; the first ten stand out where the order means something.
export function scatter(points, names, logs, ranked, pick) {
  const shown = points.filter(([x, y]) => (!logs.x || x > 0) && (!logs.y || y > 0));
  const { x, y, marks } = plane(shown.map((point) => point[0]), shown.map((point) => point[1]), names, logs);
  const top = (point) => ranked && point[3] < 10;
  const ordered = [...shown.filter((point) => !top(point)), ...shown.filter(top)];
  const dots = ordered.map((point) => s("circle", {
    cx: x(point[0]).toFixed(1), cy: y(point[1]).toFixed(1), r: top(point) ? 5.5 : 4,
    class: `dot hit ${top(point) ? "c1 ringed" : "c0"}`, tabindex: top(point) ? 0 : null, role: top(point) ? "button" : null,
    "data-tip": `${ranked ? `${point[3] + 1}. ` : ""}${names.x} ${figure(point[0])}, ${names.y} ${figure(point[1])}`,
    "data-arch": point[2],
    click: () => pick(point[2]),
    keydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(point[2]); } },
  }));
  return { chart: drawn(`${names.y} against ${names.x}`, marks, dots), shown: shown.length };
}

// series: [{name, points: [[count, best], ...]}]
export function improvement(series, names, logs) {
  const sound = series.map((each) => ({ ...each, points: each.points.filter(([, y]) => Number.isFinite(y) && (!logs.y || y > 0)) }));
  const all = sound.flatMap((each) => each.points);
  const { x, y, marks } = plane([0, ...all.map((point) => point[0])].filter((v) => !logs.x || v > 0), all.map((point) => point[1]), names, logs);
  const lines = sound.map((each, place) => {
    let path = "", last = 0;
    each.points.forEach(([across, up], index) => {
      const at = x(across).toFixed(1), to = y(up).toFixed(1);
      path += index ? `L${at} ${last}L${at} ${to}` : `M${at} ${to}`;
      last = to;
    });
    return [
      s("path", { d: path, class: `line c${place % 8}`, "data-tip": each.name }),
      each.points.map((point) => s("circle", {
        cx: x(point[0]).toFixed(1), cy: y(point[1]).toFixed(1), r: 3.2, class: `dot c${place % 8} solid`,
        "data-tip": `${each.name}: ${figure(point[1])} after ${point[0].toLocaleString("en")}`,
      })),
    ];
  });
  const legend = series.length < 2 ? null : h("ul", { class: "legend" }, series.map((each, place) => h("li", null,
    s("svg", { viewBox: "0 0 22 12", width: 22, height: 12, "aria-hidden": "true" }, s("line", { x1: 1, x2: 21, y1: 6, y2: 6, class: `line c${place % 8}` })),
    each.name)));
  return [drawn(`Best ${names.y} so far`, marks, lines), legend];
}
