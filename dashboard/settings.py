"""Safe server settings, set in code and held against files, environment and re-parsing.

Streamlit reads `.streamlit/config.toml` and `secrets.toml` of the home, working and script
directories, and reads its options anew whenever something asks for it. A log file is often
looked at from a folder somebody else wrote to, so none of those files is read here, variables
of the environment are dropped, and after each parse every option is put back.
"""

from __future__ import annotations

import os
from typing import Any, Final

from streamlit import config
from streamlit.config_option import ConfigOption

from dashboard import theme
from dashboard.access import LOCAL_HOSTS, NOBODY_ELSE, Access

ADDRESS: Final = "127.0.0.1"

_SAFE: Final[dict[str, Any]] = {
    "server.address": ADDRESS,
    "server.allowedHosts": list(LOCAL_HOSTS),
    "server.enableCORS": True,
    "server.corsAllowedOrigins": [],
    "server.enableXsrfProtection": True,
    "server.xsrfCookieSameSite": "strict",
    "server.maxUploadSize": 64,  # MB
    "server.enableStaticServing": False,
    "server.enableAgentApi": False,
    "server.fileWatcherType": "none",
    "server.runOnSave": False,
    "server.headless": True,
    "server.showEmailPrompt": False,
    "client.showErrorDetails": "none",  # paths and source stay here
    "client.showErrorLinks": False,
    "client.toolbarMode": "viewer",
    # Streamlit's own table download does not neutralise formulas; ours does.
    "client.disableDataExport": True,
    "browser.gatherUsageStats": False,
    "browser.serverAddress": "localhost",
    "runner.magicEnabled": False,
    "server.trustedUserHeaders": {},
    **theme.options(),
}
_pinned: dict[str, Any] = {}


def pin(access: Access = NOBODY_ELSE) -> None:
    """Set the safe options for good, with the names of those who are let in from elsewhere.

    To be called before the first `st.App`.
    """
    _pinned.clear()
    _pinned.update(_SAFE)
    if access.url is not None:
        _pinned["server.allowedHosts"] = list(access.hosts)
        _pinned["server.corsAllowedOrigins"] = [access.url.rstrip("/")]
    if access.user_header is not None:
        _pinned["server.trustedUserHeaders"] = {access.user_header: "email"}
    for name in [name for name in os.environ if name.startswith("STREAMLIT_")]:
        del os.environ[name]
    config.get_config_files = _no_files
    config.on_config_parsed(_apply, force_connect=True, lock=True)
    config.get_config_options(force_reparse=True)


def effective() -> dict[str, Any]:
    """What the running server goes by, for every option that `pin` sets."""
    return {name: config.get_option(name) for name in _pinned}


def safe() -> dict[str, Any]:
    """The values that `pin` sets."""
    return dict(_pinned or _SAFE)


def _no_files(file_name: str) -> list[str]:
    return []


def _apply() -> None:
    options = config.get_config_options()
    for name, value in _pinned.items():
        options[name].set_value(value, ConfigOption.STREAMLIT_DEFINITION)
