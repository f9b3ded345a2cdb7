"""One crosshair for the charts of a page that share their time axis.

They are pictures of their own, so that each can be saved and read as a table; their plots begin at
one x (`series.AXIS_WIDTH`), so a line at the x of the pointer is the same moment on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from dashboard.charts.figure import Figure
from dashboard.charts.series import AXIS_WIDTH

_CSS: Final = """
.crosshair { position: fixed; width: 0; border-left: 1px dashed var(--st-text-color); opacity: 0.6;
  pointer-events: none; z-index: 1; display: none; }
"""
_JS: Final = """
export default function ({parentElement, data}) {
  const box = parentElement.querySelector('.crosshairs');
  while (box.children.length < data.charts.length) {
    const line = document.createElement('div');
    line.className = 'crosshair';
    box.appendChild(line);
  }
  const hide = () => { for (const line of box.children) line.style.display = 'none'; };
  const move = (event) => {
    const charts = data.charts.map(
      (name) => document.querySelector('.st-key-' + name + ' svg.marks'));
    const over = charts.find((chart) => chart && chart.contains(event.target));
    if (!over) return hide();
    const from = event.clientX - over.getBoundingClientRect().left;
    if (from < data.axis) return hide();
    charts.forEach((chart, nth) => {
      const line = box.children[nth];
      if (!chart) { line.style.display = 'none'; return; }
      const place = chart.getBoundingClientRect();
      Object.assign(line.style, {
        display: 'block', left: place.left + from + 'px', top: place.top + 'px',
        height: place.height + 'px',
      });
    });
  };
  const ends = new AbortController();
  const until = {signal: ends.signal, passive: true, capture: true};
  document.addEventListener('pointermove', move, until);
  document.addEventListener('pointerleave', hide, until);
  document.addEventListener('scroll', hide, until);
  return () => { hide(); ends.abort(); };
}
"""


def show(figures: Sequence[Figure]) -> None:
    """A line through all of these charts at the x of the pointer."""
    mount = st.components.v2.component(
        "servescope_crosshair", css=_CSS, js=_JS,
        html='<div class="crosshairs" aria-hidden="true"></div>',
    )  # fmt: skip
    charts = [f"chart_{figure.key}" for figure in figures]
    mount(key="crosshair", data={"charts": charts, "axis": AXIS_WIDTH}, height=1)
