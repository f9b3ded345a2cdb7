"""Contrast of what a page says: every text against its ground, as WCAG 2 counts it (1.4.3, AA).

Large text needs 3:1, all other 4.5:1; what is switched off is exempt. Tables are drawn on a canvas
and not seen here; their colours are the page's own.
"""

from __future__ import annotations

from playwright.sync_api import Page

_FAINT = """
() => {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext('2d', {willReadFrequently: true});
  const drawn = (css) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = css;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const once = (known, key, make) => known.get(key) ?? known.set(key, make(key)).get(key);
  const colours = new Map(), boxes = new Map();
  const rgba = (css) => once(colours, css, drawn);
  const over = (top, under) => under.map((u, i) => top[i] * top[3] + u * (1 - top[3]));
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => (v / 255 <= 0.03928
      ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // What lies under the text of an element, and how much of its ink is left.
  const box = (el) => {
    const {ground, opacity} = el.parentElement
      ? once(boxes, el.parentElement, box) : {ground: [255, 255, 255], opacity: 1};
    const own = getComputedStyle(el);
    return {
      own, ground: over(rgba(own.backgroundColor), ground),
      opacity: opacity * parseFloat(own.opacity),
    };
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode());) {
    const el = text.parentElement;
    const shown = el.checkVisibility({opacityProperty: true, visibilityProperty: true});
    const off = el.closest('script, style, [aria-disabled=true], :disabled')
      || el.closest('label')?.querySelector(':disabled');
    if (!text.data.trim() || !shown || off) continue;
    const {own, ground, opacity} = once(boxes, el, box);
    const [r, g, b, a] = rgba(el.closest('svg') ? own.fill : own.color);
    const ink = [r, g, b, a * opacity];
    const [low, high] = [light(over(ink, ground)), light(ground)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(own.fontSize);
    const large = size >= 24 || (size >= 18.66 && own.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push(`${text.data.trim().slice(0, 40)}: ${ratio}`);
  }
  return found;
}
"""


def faint(page: Page) -> list[str]:
    """The texts that stand out too little, each with its contrast."""
    found: list[str] = page.evaluate(_FAINT)
    return found
