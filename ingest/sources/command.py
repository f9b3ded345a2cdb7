"""Logs that a command prints: of docker, Kubernetes and the journal, here or over SSH."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

from data.errors import SourceError
from ingest.sources.address import HostAddress
from ingest.sources.position import CursorPosition, Position, StampPosition

Kind = Literal["docker", "k8s", "journald"]
_SHAPES = {
    "docker": "docker://[[user@]host/]container",
    "k8s": "k8s://namespace/pod[/container] or k8s://context/namespace/pod/[container]",
    "journald": "journald://[[user@]host/]unit",
}
# None may begin with a dash: it would be an option.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@\\-]*")


def is_command(location: str) -> bool:
    """Whether the location is one of a command."""
    return location.partition("://")[0] in _SHAPES and "://" in location


@dataclass(frozen=True, slots=True)
class CommandSource:
    """One log that a command prints."""

    kind: Kind
    host: HostAddress | None
    names: tuple[str, ...]  # docker: container; k8s: context, namespace, pod, container; a unit

    @property
    def source_id(self) -> str:
        """The location in full."""
        if self.kind == "k8s":
            context, namespace, pod, container = self.names
            parts = [context, namespace, pod, container] if context else [namespace, pod, container]
            return (
                "k8s://" + "/".join(parts).rstrip("/") + ("/" if context and not container else "")
            )
        host = f"{self.host}/" if self.host else ""
        return f"{self.kind}://{host}{self.names[0]}"

    @classmethod
    def parse(cls, text: str) -> CommandSource:
        """From an address; SourceError if it is none."""
        kind, _, rest = text.partition("://")
        parts = rest.split("/")
        host = None
        if kind == "k8s":
            parts = (
                ["", *parts, ""] if len(parts) == 2 else ["", *parts] if len(parts) == 3 else parts
            )
            good = len(parts) == 4 and all(parts[1:3])
        else:
            host = HostAddress.parse(parts.pop(0)) if len(parts) == 2 else None
            good = len(parts) == 1 and bool(parts[0])
        if not good or not all(_NAME.fullmatch(part) for part in parts if part):
            raise SourceError(f"{text}: is no address; give {_SHAPES[kind]}")
        return cls(cast("Kind", kind), host, tuple(parts))

    def position(self, text: str = "") -> StampPosition | CursorPosition:
        """Where reading begins or goes on."""
        return CursorPosition(text) if self.kind == "journald" else StampPosition(text)

    def arguments(self, position: Position) -> list[str]:
        """The command that prints what comes after a position, and goes on printing."""
        if isinstance(position, CursorPosition):
            after = [f"--after-cursor={position.cursor}"] if position.cursor else []
            return [
                "journalctl", "--no-pager", f"--unit={self.names[0]}", "--output=json", "--all",
                "--follow", "--no-tail", *after,
            ]  # fmt: skip
        since = position.since() if isinstance(position, StampPosition) else None
        if self.kind == "docker":
            asked = [f"--since={since}"] if since else []
            return ["docker", "logs", "--timestamps", "--follow", *asked, self.names[0]]
        return self._kubectl(since, "--follow")

    def earlier(self, position: Position) -> list[str] | None:
        """What a container printed before it was started again; None where there is no such."""
        since = position.since() if isinstance(position, StampPosition) else None
        return self._kubectl(since, "--previous") if self.kind == "k8s" and since else None

    def _kubectl(self, since: str | None, how: str) -> list[str]:
        context, namespace, pod, container = self.names
        return [
            "kubectl", *([f"--context={context}"] if context else []), f"--namespace={namespace}",
            "logs", "--timestamps", how, *([f"--container={container}"] if container else []),
            # Only whole seconds are understood: what was before in that second is dropped by us.
            *([f"--since-time={since[:19]}Z"] if since else []), pod,
        ]  # fmt: skip
