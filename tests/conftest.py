"""What every test stands on: a home of its own, and properties without a stop-watch."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

# Other work on the machine must not turn a property red; CI draws the same examples each time.
hypothesis.settings.register_profile("project", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("project")


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the store and the settings of whoever runs it."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SERVESCOPE_STORE", raising=False)
    return home
