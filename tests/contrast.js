// Texts of a page whose colour has less than 4.5 times the contrast of what is behind them, as WCAG 2 counts it.
() => {
  const parts = (colour) => {
    const found = colour.match(/[\d.]+%?/g).map((each) => parseFloat(each));
    if (colour.startsWith('color(srgb')) return [found[0] * 255, found[1] * 255, found[2] * 255, found[3] ?? 1];
    return [found[0], found[1], found[2], found[3] ?? 1];
  };
  const over = (front, back) => [0, 1, 2].map((i) => front[i] * front[3] + back[i] * (1 - front[3])).concat(1);
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const layers = new Map();
  const behind = (element) => {
    if (!element) return [255, 255, 255, 1];
    if (!layers.has(element)) {
      const own = parts(getComputedStyle(element).backgroundColor);
      layers.set(element, own[3] === 1 ? own : over(own, behind(element.parentElement)));
    }
    return layers.get(element);
  };
  const poor = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (['SCRIPT', 'STYLE', 'NOSCRIPT', 'TITLE'].includes(element.tagName) || element.closest('svg, [hidden]')) continue;
    const back = behind(element);
    const front = over(parts(getComputedStyle(element).color), back);
    const [low, high] = [light(front), light(back)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.495) {
      poor.add(`${ratio.toFixed(2)} <${element.tagName.toLowerCase()} class="${element.className}"> ${node.textContent.trim().slice(0, 30)}`);
    }
  }
  return [...poor];
};
