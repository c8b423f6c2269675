"""What is asked of a page in a browser: enough contrast everywhere, and nothing that is cut."""

from __future__ import annotations

from typing import Any

from tests.browser import Visit

CONTRAST = """() => {
  const shade = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return text === 'transparent' ? [0, 0, 0, 0] : [found[0], found[1], found[2], found.length > 3 ? found[3] : 1];
  };
  const over = (top, below) => [0, 1, 2].map((at) => top[3] * top[at] + (1 - top[3]) * below[at]).concat(1);
  const light = (colour) => {
    const part = colour.slice(0, 3).map((v) => v / 255)
      .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const own = shade(getComputedStyle(at).backgroundColor);
      if (own[3]) layers.push(own);
      if (own[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const behind = (text) => { // the last mark before a word of a drawing that lies under its middle
    const box = text.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
    let found = ground(text.closest('svg').parentElement);
    for (const mark of text.closest('svg').querySelectorAll('rect,text')) {
      if (mark === text) break;
      const own = mark.getBoundingClientRect();
      if (mark.tagName !== 'rect' || x < own.left || x > own.right || y < own.top || y > own.bottom) continue;
      const style = getComputedStyle(mark);
      if (style.fill === 'none') continue;
      const fill = shade(style.fill);
      found = over([fill[0], fill[1], fill[2], fill[3] * Number(style.fillOpacity)], found);
    }
    return found;
  };
  const poor = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim();
    if (!text || element.closest('script,style,title,noscript,#tip,option,.cell svg,:disabled')) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const style = getComputedStyle(element), drawn = element.closest('svg');
    const below = drawn ? behind(element) : ground(element);
    const [a, b] = [light(over(shade(drawn ? style.fill : style.color), below)), light(below)].sort((p, q) => q - p);
    const ratio = (a + 0.05) / (b + 0.05);
    seen += 1;
    const where = `${element.tagName}.${element.getAttribute('class')}`;
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${where} ${text.slice(0, 40)}`);
  }
  return { seen, poor };
}"""
CUT = """() => [...document.querySelectorAll('.scroll')]
  .filter((box) => box.checkVisibility({ contentVisibilityAuto: true }) && box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.innerText.slice(0, 60))"""


def poor_contrast(seen: Visit, least: int = 20) -> list[str]:
    """Words whose contrast with what is behind them is below 4.5, of at least so many words in all."""
    found: dict[str, Any] = seen.page.evaluate(CONTRAST)
    assert found["seen"] >= least
    return list(found["poor"])


def cut_tables(seen: Visit, width: int) -> list[str]:
    """The beginnings of tables that do not fit into a window of this width."""
    seen.page.set_viewport_size({"width": width, "height": 900})
    return list(seen.page.evaluate(CUT))
