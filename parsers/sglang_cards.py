"""What SGLang's arguments and the lines of its start tell of a run."""

from __future__ import annotations

import json
import re
from typing import Any

from parsers.rules import as_value
from parsers.server_args import config_hash, parse_dump, redact


def read_args(message: str, salt: str = "") -> dict[str, Any]:
    """The run card that a server_args dump gives (0.2.15 on): resolved, not given values."""
    args = redact(parse_dump(message.partition("server_args=")[2]), salt=salt)
    tp, pp = args.get("tp_size") or 1, args.get("pp_size") or 1
    dp = args.get("dp_size") or 1
    # DP attention splits the TP group; without it every DP replica has a TP group of its own.
    gpus = tp * pp * (1 if args.get("enable_dp_attention") else dp)
    return {
        "args": json.dumps(args),
        "config_hash": config_hash(args),
        "model": args.get("model_path"),
        "gpus": gpus,
        "tp": tp,
        "dp": dp,
        "pp": pp,
        "ep": args.get("ep_size"),
        "spec_algorithm": args.get("speculative_algorithm"),
        "spec_steps": args.get("speculative_num_steps"),
        "spec_draft_tokens": args.get("speculative_num_draft_tokens"),
        "max_total_tokens": args.get("max_total_tokens"),
        "context_len": args.get("context_length"),
        "decode_log_interval": args.get("decode_log_interval"),
        "disaggregation_mode": args.get("disaggregation_mode"),
    }


_PAIR = re.compile(
    r"(?:^|[\s,.\[(])#?(?P<key>[A-Za-z_](?:[\w ]*\w)?)(?:=|: )"
    r"(?P<value>\[[^\]]*\]|[0-9.]*[0-9]|[^\s,]+?(?=[,.)\]]*(?:\s|$)))\s?(?P<unit>GB|s\b)?"
)


def read_pairs(message: str, _: str) -> dict[str, Any]:
    """Seconds, memory and whatever else a start-up line prints as `name=value` or `name: value`,
    under its printed name with its unit ("avail_mem_gb")."""
    data: dict[str, Any] = {}
    for match in _PAIR.finditer(message):
        unit = {"GB": "_gb", "s": "_s", None: ""}[match["unit"]]
        value = match["value"]
        data[match["key"].replace(" ", "_") + unit] = (
            [int(n) for n in re.findall("[0-9]+", value)] if value[0] == "[" else as_value(value)
        )
    seconds = data.pop("elapsed_s", data.pop("Time_elapsed_s", None))
    sizes = [data[name] for name in data if name.endswith("_size_gb")]
    used = data.pop("mem_usage_gb", round(sum(sizes), 2) if sizes else None)
    return {"duration_s": seconds, "memory_gb": used, "data": data}


def read_pool(message: str, _: str) -> dict[str, Any]:
    """The pool summary: what the scheduler finally runs with, per DP rank (0.1.26 on)."""
    data = read_pairs(message, "")["data"]
    pairs = {k: v for k, v in data.items() if isinstance(v, int)}
    return {
        "effective": pairs,
        "max_running_requests": pairs.get("max_running_requests"),
        "max_total_tokens": pairs.get("max_total_num_tokens"),
        "context_len": pairs.get("context_len"),
        "data": data,
    }


def read_graphs(message: str, _: str) -> dict[str, Any]:
    """Which graphs are captured: device, name ("target decode", "draft extend"), sizes."""
    found = read_pairs(message, "")
    name = re.match(r"Capture ((?:[\w-]+ )*?)(\w+) graph", message)
    if name:
        graph = name[1].strip().replace(" ", "_") or "target"
        found["data"] |= {"graph": graph, "device": name[2].lower()}
    return found
