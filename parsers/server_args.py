"""Argument dumps to a run card. Secrets are redacted here, before anything is stored."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

_SECRET_KEY = re.compile(
    r"(?i)(api_?key|passwd|password|secret|credential|authorization|watermark_(key|config)"
    r"|(^|_)(hf|access|auth|bearer|refresh|session|private)_?(token|key)$|(^|_)token$|^ssl_keyfile)"
)
# sk-…, hf_…, ghp_…, AKIA…, JWTs, xox…, PEM blocks.
_SECRET_SHAPE = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{8,}|hf_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}"
    r"|glpat-[\w-]{16,}|xox[abprs]-[\w-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{20,}"
    r"|nvapi-[\w-]{8,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
    r"|-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|$)"
)
_URL_LOGIN = re.compile(r"(?<![\w.])[\w.+%-]+:[^/\s'\"@:,]+(?=@[\w\[])")
_ASSIGNED = re.compile(
    r"(?i)((?:--?|\b)[\w-]*(?:api[-_]?key|password|passwd|secret|hf[-_]token|access[-_]token"
    r"|auth[-_]token|credential)[\w-]*['\"]?\s*[=:\s]\s*)(?P<q>['\"]?)(?!None\b|null\b|\*+)"
    r"(?P<value>[^\s'\",;)}\]]+)"
)
_BEARER = re.compile(r"(?i)(authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic)?\s*)[^\s'\",;]+")
_OBJECT = re.compile(r"<[^<>]*>")
_PAIR = re.compile(r"[,{(]\s*['\"]?(\w+)['\"]?\s*[=:]\s*")

# Arguments that say where and for whom, not how it serves: two starts that differ only in these
# are one configuration.
_NOT_CONFIG = {
    "port", "host", "nccl_port", "random_seed", "seed", "dist_init_addr", "log_level", "grpc_port",
    "api_key", "admin_api_key", "served_model_name", "model_tag", "nccl_init_addr", "uds",
}  # fmt: skip


def redact_text(text: str) -> str:
    """The text with keys, tokens, passwords and logins in URLs replaced by a mark."""
    text = _SECRET_SHAPE.sub("‹redacted›", text)
    text = _URL_LOGIN.sub("‹redacted›", text)
    text = _BEARER.sub(r"\1‹redacted›", text)
    return _ASSIGNED.sub(lambda m: f"{m[1]}{m['q']}‹redacted›", text)


def redact(value: Any, key: str = "", salt: str = "") -> Any:
    """A parsed value without secrets; a salted hash keeps "changed" visible.

    Args:
        value: anything that JSON can hold.
        key: the name the value stands under.
        salt: makes the hashes of one store useless for another.
    """
    if isinstance(value, Mapping):
        return {str(k): redact(v, str(k), salt) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redact(v, key, salt) for v in value]
    if value in (None, "", False, True):
        return value
    if _SECRET_KEY.search(key):
        digest = hashlib.blake2b(f"{salt}{value}".encode(), digest_size=4).hexdigest()
        return f"‹redacted {digest}›"
    return redact_text(value) if isinstance(value, str) else value


def parse_dump(text: str) -> dict[str, Any]:
    """The arguments of a dump in any form that the engines print.

    Reads `ServerArgs(k=v, …)` (SGLang to 0.5.18), `{'k': v, …}` (SGLang 0.5.19 on, vLLM 0.9 on),
    `Namespace(k=v, …)` (vLLM to 0.8.5) and bare `k=v, …` (vLLM's engine config). A dump that was
    cut off gives the arguments before the cut.
    """
    body = _OBJECT.sub(lambda m: repr(m[0]), text.strip())
    if not re.match(r"\w*[({]", body):
        body = f"dump({body})"
    try:
        parsed = _literal(ast.parse(body, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _scan(body)
    return parsed if isinstance(parsed, dict) else {}


def _literal(node: ast.expr) -> Any:
    match node:
        case ast.Constant():
            return node.value if not isinstance(node.value, bytes | complex) else str(node.value)
        case ast.Call():
            return {kw.arg: _literal(kw.value) for kw in node.keywords if kw.arg} or [
                _literal(a) for a in node.args
            ]
        case ast.Dict():
            return {
                str(_literal(k)): _literal(v)
                for k, v in zip(node.keys, node.values, strict=True)
                if k is not None
            }
        case ast.List() | ast.Tuple() | ast.Set():
            return [_literal(e) for e in node.elts]
        case _:
            return _name(ast.unparse(node))


def _name(text: str) -> Any:
    """A bare word (auto, torch.bfloat16, inf, null, -1) as its value."""
    known = {"true": True, "false": False, "null": None, "none": None}
    if text.lower() in known:
        return known[text.lower()]
    try:
        number = float(text)
    except ValueError:
        return text
    if number in (float("inf"), float("-inf")) or number != number:
        return text
    return int(number) if re.fullmatch(r"-?[0-9]+", text) else number


def _scan(body: str) -> dict[str, Any]:
    """Arguments at depth 0 of a dump that is cut off or no Python; the cut one is dropped."""
    found: dict[str, Any] = {}
    at = re.search(r"[({]", body).start()  # type: ignore[union-attr]
    while match := _PAIR.match(body, at):
        at, closed = _value_end(body, match.end())
        if closed:
            found[match[1]] = _value(body[match.end() : at].strip())
    return found


def _value_end(body: str, at: int) -> tuple[int, bool]:
    """Where the value that starts at `at` ends, and whether it was closed before the text's end."""
    depth, quote = 0, ""
    while at < len(body):
        char = body[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            if not depth:
                return at, True
            depth -= 1
        elif char == "," and not depth:
            return at, True
        at += 1
    return at, False


def _value(text: str) -> Any:
    try:
        return _literal(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError):
        try:
            return json.loads(text)
        except ValueError:
            return text


def config_hash(args: Mapping[str, Any]) -> str:
    """Names one configuration: equal for two starts that serve the same way."""
    kept = {k: v for k, v in args.items() if k not in _NOT_CONFIG}
    text = json.dumps(kept, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
