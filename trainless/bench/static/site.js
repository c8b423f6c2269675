(() => {
  'use strict';
  const data = JSON.parse(document.getElementById('data').textContent);
  const board = document.getElementById('board'), body = board.tBodies[0], dialog = document.querySelector('dialog');
  const heads = [...board.tHead.rows[0].cells];
  const cells = new Map();
  for (const contest of data.contests) for (const entry of contest.entries) cells.set(entry.anchor, { contest, entry });

  const value = (row, at) => (at === 0 ? row.cells[0].dataset.sort : Number(row.cells[at].dataset.sort || NaN));
  const sort = (at, direction) => {
    const sign = direction === 'ascending' ? 1 : -1;
    const order = (a, b) => {
      const [x, y] = [value(a, at), value(b, at)];
      if (at === 0) return sign * x.localeCompare(y);
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y); // what is not there is last
      return sign * (x - y);
    };
    heads.forEach((head, place) => (place === at ? head.setAttribute('aria-sort', direction) : head.removeAttribute('aria-sort')));
    body.append(...[...body.rows].sort(order));
  };
  heads.forEach((head, at) => head.querySelector('button').addEventListener('click', () => {
    const first = head.dataset.first, other = first === 'ascending' ? 'descending' : 'ascending';
    sort(at, head.getAttribute('aria-sort') === first ? other : first);
  }));
  document.getElementById('find').addEventListener('input', (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    for (const row of body.rows) row.hidden = !row.cells[0].dataset.sort.toLowerCase().includes(wanted);
  });

  const made = (name, attributes, ...children) => {
    const svg = ['svg', 'circle', 'line', 'text'].includes(name);
    const element = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
    for (const [key, each] of Object.entries(attributes)) element.setAttribute(key, each);
    element.append(...children);
    return element;
  };
  const short = (x) => (x === null || x === undefined ? '–' : Math.abs(x) < 10 ? x.toFixed(3) : x.toFixed(2));
  const interval = ([middle, low, high]) => short(middle) + (low === null || low === undefined ? '' : ` [${short(low)}, ${short(high)}]`);

  const scatter = (contest, entry) => {
    const accuracy = entry.accuracy || contest.accuracy, low = Math.min(...accuracy), high = Math.max(...accuracy);
    const across = (place) => 70 + 470 * place, up = (each) => 290 - 270 * ((each - low) / (high - low || 1));
    const failed = entry.places.filter((place) => place === null).length;
    const said = `${accuracy.length} networks: ${contest.metric} accuracy against the place by ${entry.name}`;
    const drawing = made('svg', { viewBox: '0 0 560 340', role: 'img', 'aria-label': said });
    drawing.append(made('line', { class: 'axis', x1: 60, x2: 550, y1: 300, y2: 300 }), made('line', { class: 'axis', x1: 60, x2: 60, y1: 12, y2: 300 }));
    entry.places.forEach((place, at) => {
      const x = place === null ? 52 : across(place);
      drawing.append(made('circle', { class: place === null ? 'dot failed' : 'dot', cx: x.toFixed(1), cy: up(accuracy[at]).toFixed(1), r: 3 }));
    });
    for (const each of [low, (low + high) / 2, high]) drawing.append(made('text', { x: 44, y: up(each) + 4, 'text-anchor': 'end' }, short(each)));
    drawing.append(made('text', { x: 62, y: 322 }, 'worst score'), made('text', { x: 550, y: 322, 'text-anchor': 'end' }, 'best score'));
    const words = `Trained accuracy against the place by score, of ${accuracy.length} networks drawn at random.`
      + (failed ? ` Left of the axis: ${failed} without a score.` : '');
    return [drawing, made('p', {}, made('small', {}, words))];
  };
  const statistics = (entry) => {
    const out = entry.failures_out;
    const head = ['statistic', out ? 'no score: ranked last' : 'value', ...(out ? ['no score: left out'] : [])];
    const table = made('table', {}, made('thead', {}, made('tr', {}, ...head.map((name) => made('th', { scope: 'col' }, name)))));
    const rows = Object.keys(entry.failures_last).map((name) => made('tr', {}, made('th', { scope: 'row' }, name),
      ...[entry.failures_last, ...(out ? [out] : [])].map((found) => made('td', {}, interval(found[name])))));
    table.append(made('tbody', {}, ...rows));
    return table;
  };
  const show = () => {
    const found = cells.get(location.hash.slice(1));
    if (!found) { if (dialog.open) dialog.close(); return; }
    const { contest, entry } = found, count = (n) => n.toLocaleString('en');
    const about = `${contest.table}, ${contest.task} ${contest.metric} accuracy, ${contest.population}: `
      + `${count(entry.scored)} of ${count(entry.asked)} scores.`;
    dialog.querySelector('div').replaceChildren(made('h2', { id: 'name' }, entry.name), made('p', {}, about),
      ...scatter(contest, entry), statistics(entry),
      made('p', {}, made('small', {}, 'Permanent link: ', made('a', { href: `#${entry.anchor}` }, `#${entry.anchor}`))));
    if (!dialog.open) dialog.showModal();
  };
  dialog.addEventListener('close', () => {
    const cell = document.getElementById(location.hash.slice(1));
    if (!cell) return;
    history.pushState(null, '', location.pathname + location.search);
    cell.querySelector('a').focus();
  });
  window.addEventListener('hashchange', show);
  window.addEventListener('popstate', show);
  show();
})();
