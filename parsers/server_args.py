"""Argument dumps to a run card. Secrets are redacted here, before anything is stored."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from parsers.records import NOT_CONFIG

_KEYS = "access|account|auth|encryption|license|master|private|service|session|signing|wandb"
_TOKENS = "access|api|auth|bearer|github|gitlab|hf|hub|id|refresh|secret|session|wandb"
_SECRET_KEY = re.compile(
    r"(?i)(api_?key|passwd|password|passphrase|secret|credential|authorization"
    r"|watermark_(key|config)|(^|_)token$|(^|_)pwd$|^ssl_keyfile"
    rf"|(^|_)({_KEYS})_?keys?$|(^|_)({_TOKENS})_?tokens?$)"
)
# Keys that tell by their form whose they are, JWTs, and PEM blocks over any number of lines.
_SECRET_SHAPE = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{8,}|hf_(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{16,}"
    r"|github_pat_\w{16,}|glpat-[\w-]{16,}|(?:xox[abeprs]|xapp)-[\w-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{12,}"
    r"|AIza[\w-]{20,}|(?:[sr]k_(?:live|test)|tgp_v1|dckr_pat)_[\w-]{8,}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|(?:gsk|r8|npm|fw)_(?=[a-zA-Z]*[0-9])[A-Za-z0-9]{20,}|(?:xai|pplx|pypi)-(?=[a-zA-Z]*[0-9])[\w-]{20,}"
    r"|nvapi-[\w-]{8,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
    r"|(?s:-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z))"
)
_URL_LOGIN = re.compile(
    r"(?<=://)(?:[^\s/'\"@:]*:[^\s/'\"@]+|[^\s/'\"@:]{16,})(?=@)"
    r"|(?<![\w.+%-])[\w.+%-]+:[^/\s'\"@:,]+(?=@[\w\[])"
)
_QUERY = re.compile(
    r"(?i)((?:[?&;](?:token|key|code|auth|signature|pwd|password)|(?<![\w-])sig"
    r"|(?<![\w-])X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token))=)[^&\s'\"#;,)}\]\\]+"
)
_QUOTE = r"\\{0,8}['\"]"
# A value as a whole: a list, an object, a quoted text or a word; torn ones up to the end.
_VALUE = (
    r"(?!None\b|null\b|True\b|False\b|true\b|false\b|\*+|‹|\\{0,8}['\"](?:‹|\\{0,8}['\"])|\[\])"
    r"(?:(?P<list>\[[^\]]*\]?|\([^)]*\)?|\{[^}]*\}?)"
    rf"|(?P<q>{_QUOTE})(?:(?!(?P=q)).)*(?P<end>(?P=q))?|[^\s'\",;)}}\]&\\]+)"
)
_SECRET_NAME = (
    r"[\w-]{0,80}(?:api[-_]?key|password|passwd|passphrase|secret|credential"
    rf"|(?<![a-z])(?:{_KEYS})[-_]?keys?(?![a-z])|(?<![a-z])(?:{_TOKENS})[-_]?tokens?(?![a-z]))"
    r"[\w-]{0,40}"
)
_ASSIGNED = re.compile(
    rf"(?i)((?<![\w-])(?:--?{_SECRET_NAME}\s+|{_SECRET_NAME}(?:{_QUOTE})?\s*[=:]\s*)){_VALUE}"
)
# Bare names that are harmless in prose and in counts ("#token: 57"): only as a quoted name, an
# option or an assignment, and never before a number.
_BARE = re.compile(
    rf"(?i)((?<![\w#.-])(?:--(?:token|pwd)[=\s]\s*|{_QUOTE}(?:token|pwd){_QUOTE}\s*[=:]\s*"
    rf"|(?:token|pwd|(?-i:[A-Z0-9_]+_TOKEN))=|pwd:\s*|token:\s*(?={_QUOTE}|\S{{12}})))"
    rf"(?![0-9.]+(?![\w-])){_VALUE}"
)
_BEARER = re.compile(
    rf"(?i)(authorization(?:{_QUOTE})?\s*[:=]\s*(?:{_QUOTE})?(?:bearer\s|basic\s)?\s*)[^\s'\",;\\]+"
    r"|(\bbearer\s+)[\w.~+/=-]{8,}"
)
_MARK = "‹redacted›"
_OBJECT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(?P<object><[^<>]*>)")
_PAIR = re.compile(r"[,{(]\s*['\"]?(\w+)['\"]?\s*[=:]\s*")


def redact_text(text: str) -> str:
    """The text with keys, tokens, passwords and logins in URLs replaced by a mark."""
    text = _SECRET_SHAPE.sub(_MARK, text)
    text = _URL_LOGIN.sub(_MARK, text)
    text = _QUERY.sub(rf"\1{_MARK}", text)
    text = _BEARER.sub(lambda m: f"{m[1] or m[2]}{_MARK}", text)
    return _BARE.sub(_hidden, _ASSIGNED.sub(_hidden, text))


def _hidden(match: re.Match[str]) -> str:
    """The assignment with its value hidden, so that a dump can still be read."""
    if match["list"]:
        return f"{match[1]}['{_MARK}']"
    return f"{match[1]}{match['q'] or ''}{_MARK}{match['end'] or ''}"


def is_secret(name: str) -> bool:
    """Whether what stands under a name is a secret."""
    return bool(_SECRET_KEY.search(name.replace("-", "_")))


def redact(value: Any, key: str = "", salt: str = "") -> Any:
    """A parsed value without secrets; a salted hash keeps "changed" visible.

    Args:
        value: anything that JSON can hold.
        key: the name the value stands under.
        salt: makes the hashes of one store useless for another.
    """
    secret = is_secret(key)
    if isinstance(value, Mapping):
        return {
            redact_text(str(k)): redact(v, key if secret else str(k), salt)
            for k, v in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [redact(v, key, salt) for v in value]
    if value in (None, "", False, True):
        return value
    if secret:
        digest = hashlib.blake2b(f"{salt}{value}".encode(), digest_size=4).hexdigest()
        return f"‹redacted {digest}›"
    return _redact_string(value, salt) if isinstance(value, str) else value


def _redact_string(text: str, salt: str) -> str:
    if text.lstrip()[:1] in ("{", "["):
        try:
            held = json.loads(text)
        except (ValueError, RecursionError):
            return redact_text(text)
        hidden = redact(held, salt=salt)
        return text if hidden == held else json.dumps(hidden, ensure_ascii=False)
    return redact_text(text)


def parse_dump(text: str) -> dict[str, Any]:
    """The arguments of a dump in any form that the engines print.

    Reads `ServerArgs(k=v, …)` (SGLang to 0.5.18), `{'k': v, …}` (SGLang 0.5.19 on, vLLM 0.9 on),
    `Namespace(k=v, …)` (vLLM to 0.8.5) and bare `k=v, …` (vLLM's engine config). A dump that was
    cut off gives the arguments before the cut.
    """
    body = _OBJECT.sub(lambda m: repr(m[0]) if m["object"] else m[0], text.strip())
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
    kept = {k: v for k, v in args.items() if k not in NOT_CONFIG}
    text = json.dumps(kept, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
