"""A page without a mouse: what Tab reaches, how it is called, and whether its focus is seen."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

_MOST_STEPS = 250
# The page, boxes that scroll, and tables: the box around one has its name; cells may be empty.
_NAMED_AROUND = ("RootWebArea", "main", "generic", "Canvas", "gridcell")

# How an element and the boxes around it look: a field's frame is drawn by one of these.
_START = """
() => {
  const still = window.__still = document.createElement('style');
  still.textContent = '* { transition: none !important; }';
  document.head.appendChild(still);
  const looks = (el) => {
    const seen = [];
    for (let box = el, n = 0; box && n < 14; box = box.parentElement, n++) {
      const s = getComputedStyle(box);
      seen.push([s.outlineStyle, s.outlineWidth, s.outlineColor, s.boxShadow, s.borderColor,
        s.backgroundColor, s.textDecorationLine, s.color].join());
    }
    return seen.join('|');
  };
  const steps = window.__steps = [];
  const note = () => {
    const el = document.activeElement;
    if (el && el !== document.body) steps.push({el, focused: looks(el)});
  };
  const ends = window.__ends = new AbortController();
  document.addEventListener('keydown', (event) => { if (event.key === 'Tab') note(); },
    {capture: true, signal: ends.signal});
  window.__note = note;
  window.__looks = looks;
  document.activeElement?.blur();
  window.scrollTo(0, 0);
  document.body.tabIndex = -1;
  document.body.focus();
}
"""
_END = """
() => {
  window.__note();
  window.__ends.abort();
  document.activeElement?.blur();
  document.body.removeAttribute('tabindex');
  window.__still.remove();
  const steps = window.__steps;
  const reached = new Set(steps.map((step) => step.el));
  const told = (el) => `${el.tagName.toLowerCase()} ${el.getAttribute('role') || ''} ` +
    `"${(el.getAttribute('aria-label') || el.innerText || el.id || el.className).slice(0, 50)}"`;
  const wanted = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
  const missed = [...document.querySelectorAll(wanted)].filter((el) => {
    if (el.disabled || el.tabIndex < 0 || reached.has(el) || el.closest('[inert]')) return false;
    const drawn = el.checkVisibility({visibilityProperty: true}) && el.getClientRects().length;
    if (!drawn) return false;
    // Arrow keys go on inside a group.
    const group = el.closest('[role=radiogroup], [role=toolbar], [data-testid=stButtonGroup]');
    return !group || ![...reached].some((other) => group.contains(other));
  });
  const bare = [...document.querySelectorAll('canvas[tabindex]')].filter(
    (canvas) => !canvas.closest('[role=region][aria-label]'));
  const unseen = steps.filter((step) => step.el.isConnected
    && step.focused === window.__looks(step.el)).map((step) => told(step.el));
  return {missed: missed.map(told), bare: bare.length, unseen: [...new Set(unseen)]};
}
"""


def faults(page: Page) -> list[str]:
    """Tabs through the page: what is not reached, shows no focus or has no name."""
    page.mouse.move(0, 0)  # what lies under the pointer may look as with the focus
    page.evaluate(_START)
    for _ in range(_MOST_STEPS):
        page.keyboard.press("Tab")
        # Round again at the first one. The body alone is no end: a button that shows itself when
        # its box has the focus is passed over by keys that are faster than a frame.
        if page.evaluate("window.__steps.length > 1 && document.activeElement === __steps[0].el"):
            break
    else:
        return ["Tab does not come round"]
    found = page.evaluate(_END)
    return [
        *(f"not reached: {name}" for name in found["missed"]),
        *(f"its focus is not seen: {name}" for name in found["unseen"]),
        *(f"without a name: {role}" for role in _nameless(page)),
        *["a table without a name"] * found["bare"],
    ]


def _nameless(page: Page) -> list[str]:
    """Elements that can have the focus and have no name in the browser's accessibility tree."""
    session = page.context.new_cdp_session(page)
    nodes: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [
        str(node["role"]["value"])
        for node in nodes
        if not node.get("ignored")
        and {"name": "focusable", "value": {"type": "booleanOrUndefined", "value": True}}
        in node.get("properties", [])
        and not node.get("name", {}).get("value")
        and node["role"]["value"] not in _NAMED_AROUND
    ]
