"""Before every page: whoever comes from elsewhere signs in, and is on the list or sees nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard.access import Access
from dashboard.context import current


def admitted() -> bool:
    """Whether the visitor may see the pages; of a proxy's users `access.Guard` has decided."""
    access = current().access
    if access.oidc is None:
        return True
    return bool(st.user.is_logged_in) and may_enter(access, st.user.to_dict())


def may_enter(access: Access, claims: Mapping[str, Any]) -> bool:
    """Whether the list has the user of these claims of the provider."""
    if claims.get("email_verified") is False:
        return False
    groups = claims.get("groups")
    named = groups if isinstance(groups, list) else []
    return access.admits(str(claims.get("email") or ""), list(map(str, named)))


def page() -> None:
    """What stands in place of a page: the way in, or why there is none."""
    if not st.user.is_logged_in:
        st.subheader("Sign in to see this server.", anchor=False)
        st.button(
            "Sign in", icon=":material/login:", type="primary", on_click=st.login, key="login"
        )
        return
    st.subheader("This account may not see the server.", anchor=False)
    name = st.user.get("email") or "an account without an e-mail address"
    st.text(f"Signed in as {name}. Whoever runs the server can add you to its list.")
    st.button("Sign out", icon=":material/logout:", on_click=st.logout, key="logout")


def footer() -> None:
    """Below a page: who is signed in, and the way out."""
    if current().access.oidc is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="footer"):
        st.text(f"Signed in as {st.user.get('email')}")
        st.button("Sign out", icon=":material/logout:", on_click=st.logout, key="logout")
