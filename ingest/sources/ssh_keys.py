"""Logging in with keys: of the agent, and of files, unlocked where needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import paramiko

from data.errors import LoginError, UnreachableError
from ingest.sources import secret
from ingest.sources.ssh_config import Hop


def log_in(transport: paramiko.Transport, hop: Hop) -> None:
    """Offer one key after the other; LoginError if none is taken."""
    tried: list[str] = []
    unread: list[str] = []
    agent = paramiko.Agent() if hop.agent else None
    try:
        for name, key in _offered(hop, agent, unread):
            tried.append(name)
            if _accepted(transport, hop, key):
                return
    except paramiko.BadAuthenticationType as error:
        ways = ", ".join(error.allowed_types)
        raise LoginError(
            f"{hop.user}@{hop.name}: takes no keys, only {ways}; allow keys there"
        ) from error
    finally:
        if agent is not None:
            agent.close()
    what = f"tried {', '.join(tried)}" if tried else "there is no key to try"
    raise LoginError(
        f"{hop.user}@{hop.name}: login refused ({'; '.join([what, *unread])}); put your key there "
        "(ssh-copy-id), or name it with IdentityFile in ~/.ssh/config"
    )


def _accepted(transport: paramiko.Transport, hop: Hop, key: paramiko.PKey) -> bool:
    try:
        needed = transport.auth_publickey(hop.user, key)
    except paramiko.BadAuthenticationType:
        raise
    except paramiko.AuthenticationException:
        if not transport.is_active():
            raise LoginError(
                f"{hop.user}@{hop.name}: hung up after several keys; name the right one with "
                "IdentityFile and IdentitiesOnly in ~/.ssh/config"
            ) from None
        return False
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise UnreachableError(f"{hop.name}: broke off the login ({error})") from error
    if needed:
        raise LoginError(f"{hop.user}@{hop.name}: asks for {', '.join(needed)} besides the key")
    return True


def _offered(
    hop: Hop, agent: paramiko.Agent | None, unread: list[str]
) -> Iterator[tuple[str, paramiko.PKey]]:
    """Keys to offer: those of the agent that the files name, the files, the agent's others."""
    named = [public for public in map(_public, hop.keys) if public]
    held = list(agent.get_keys()) if agent is not None else []
    yield from (("the agent's key", key) for key in held if key.get_base64() in named)
    in_agent = {key.get_base64() for key in held}
    for path in hop.keys:
        if os.path.isfile(path) and _public(path) not in in_agent:
            key = _load(path, unread)
            if key is not None:
                yield path, key
    if not hop.keys_only:
        yield from (("the agent's key", key) for key in held if key.get_base64() not in named)


def _public(path: str) -> str | None:
    try:
        return Path(f"{path}.pub").read_text(errors="replace").split()[1]
    except (OSError, IndexError):
        return None


def _load(path: str, unread: list[str]) -> paramiko.PKey | None:
    """A private key, unlocked; None, and why in `unread`, if that cannot be."""
    try:
        return paramiko.PKey.from_path(path)
    except (paramiko.PasswordRequiredException, TypeError, ValueError):
        pass  # locked, or else told below
    except (paramiko.SSHException, OSError) as error:
        unread.append(f"{path} cannot be read: {error}")
        return None
    phrase = secret.passphrase(path)
    if not phrase:
        unread.append(f"{path} has a passphrase: ssh-add it, or set {secret.VARIABLE}")
        return None
    try:
        # It says str and takes bytes only.
        return paramiko.PKey.from_path(path, phrase.encode())  # type: ignore[arg-type]
    except Exception:
        secret.forget(path)
        unread.append(f"the passphrase of {path} is wrong")
        return None
