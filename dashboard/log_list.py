"""The lines of a log as a list in the browser: levels, numbers, one line marked, clicks told.

Streamlit's own code block has no levels and no clicks. The script only ever sets text, so that no
line of a log can become markup. A list at its end, or at the marked line, stays there as lines come
and as they wrap; one that the reader has scrolled stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import streamlit as st

HEIGHT: Final = 320  # pixels

_CSS: Final = """
.log { height: 320px; overflow: auto; border: 1px solid var(--st-border-color);
  border-radius: var(--st-base-radius); background: var(--st-secondary-background-color);
  color: var(--st-text-color); font: 0.8rem/1.5 var(--st-code-font, monospace); padding: 0.4rem 0;
  box-sizing: border-box; overflow-anchor: none; }
.line { display: grid; grid-template-columns: 4.5rem 5.5rem 1fr; gap: 0.5rem; padding: 0 0.6rem;
  cursor: pointer; border-left: 4px solid transparent; }
.line:hover, .line:focus { background: var(--st-border-color); outline: none; }
.line.marked { border-left-color: var(--st-primary-color);
  background: var(--st-background-color); font-weight: 600; }
.no { text-align: right; opacity: 0.75; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; direction: ltr; }
.warning { color: var(--st-orange-text-color); }
.fault { color: var(--st-red-text-color); }
@media (max-width: 640px) {
  .line { grid-template-columns: auto 1fr; column-gap: 0.75rem; }
  .no { text-align: left; } .text { grid-column: 1 / -1; }
}
"""
_JS: Final = """
const SIGNS = {warning: '\\u25b2 warning', fault: '\\u2716 fault', '': ''};

function made(line, tell) {
  const row = document.createElement('div');
  row.setAttribute('role', 'option');
  row.tabIndex = -1;
  for (const [name, text] of [
    ['no', line.no], ['level ' + line.level, SIGNS[line.level]], ['text ' + line.level, line.text],
  ]) {
    const cell = document.createElement('span');
    cell.className = name;
    cell.textContent = text;
    row.appendChild(cell);
  }
  row.dataset.id = line.id;
  row.dataset.level = line.level;
  row.onclick = () => tell(line.id);
  return row;
}

export default function ({parentElement, data, setTriggerValue}) {
  const box = parentElement.querySelector('.log');
  box.setAttribute('aria-label', data.name);
  const tell = (id) => setTriggerValue('line', id);
  box.onkeydown = (event) => {
    const rows = [...box.children];
    const at = rows.findIndex((row) => row.matches(':focus'));
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step && rows.length) {
      rows[Math.min(rows.length - 1, Math.max(0, at + step))].focus();
      event.preventDefault();
    } else if (event.key === 'Enter' && at >= 0) {
      tell(rows[at].dataset.id);
    }
  };
  const place = () => {
    const marked = box.stays === 'marked' && box.querySelector('.marked');
    if (marked) box.scrollTop = marked.offsetTop - box.offsetTop - box.clientHeight / 2;
    else if (box.stays === 'end') box.scrollTop = box.scrollHeight;
    box.put = box.scrollTop;
  };
  const scrolled = () => {  // by the reader
    if (Math.abs(box.scrollTop - box.put) < 2) return;
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
    box.stays = atEnd && !box.querySelector('.marked') ? 'end' : '';
    box.put = box.scrollTop;
  };
  if (box.stands) scrolled();
  box.onscroll = scrolled;
  box.place = place;
  if (!box.stands) {
    // Lines wrap anew at another width, and once their font is there.
    box.stands = new ResizeObserver(() => box.place());
    box.stands.observe(box);
    document.fonts.ready.then(() => box.place());
  }
  const wanted = new Map(data.lines.map((line) => [line.id, line]));
  const first = box.firstElementChild;
  let gone = 0;
  for (const row of [...box.children]) {
    const line = wanted.get(row.dataset.id);
    if (!line || line.level !== row.dataset.level || line.text !== row.lastChild.textContent) {
      gone += row.offsetTop < box.scrollTop + box.offsetTop ? row.offsetHeight : 0;
      row.remove();
    }
  }
  const kept = new Map([...box.children].map((row) => [row.dataset.id, row]));
  data.lines.forEach((line, nth) => {
    const row = kept.get(line.id) || made(line, tell);
    row.className = 'line' + (line.id === data.marked ? ' marked' : '');
    row.onclick = () => tell(line.id);
    row.setAttribute('aria-selected', String(line.id === data.marked));
    if (box.children[nth] !== row) box.insertBefore(row, box.children[nth] || null);
  });
  if (data.view !== box.dataset.view) {
    box.dataset.view = data.view;
    const marked = box.querySelector('.marked');
    if (marked) box.scrollIntoView({block: 'nearest'});
    box.stays = marked ? 'marked' : 'end';
  } else if (!box.stays && gone && first && !first.isConnected) {
    box.scrollTop -= gone;
  }
  place();
}
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the list."""

    id: str
    number: int | None  # in its file
    level: str  # "", warning, fault
    text: str


def show(
    rows: Sequence[Row], name: str, marked: str | None, view: str, on_line: Callable[[], None]
) -> None:
    """The list. `on_line` is called after a click on a line: its id is what `clicked` gives.

    Args:
        name: what the list holds, for those who cannot see it.
        marked: the id of the line that stands out.
        view: another one makes the list scroll to the marked line, or to its end.
    """
    lines = [
        {"id": row.id, "no": "" if row.number is None else f"{row.number:,}", "level": row.level,
         "text": row.text}
        for row in rows
    ]  # fmt: skip
    mount = st.components.v2.component(
        "servescope_log", css=_CSS, js=_JS,
        html='<div class="log" role="listbox" tabindex="0"></div>',
    )  # fmt: skip
    mount(
        key="log", data={"lines": lines, "name": name, "marked": marked, "view": view},
        on_line_change=on_line, height=HEIGHT,
    )  # fmt: skip


def clicked() -> str | None:
    """The id of the line that was clicked last, inside its callback."""
    told: Any = st.session_state.get("log")
    return None if told is None else told.get("line")
