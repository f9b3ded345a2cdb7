#!/usr/bin/env python3
"""What a careful Python loop does: as re_loop.py, but numbers typed by their fields, and a stamp
taken apart by its places and only when it changes. typed_loop.py FILE"""

from __future__ import annotations

import re
import sys
from datetime import datetime

NUMBER = rb"([0-9]+(?:\.[0-9]+)?)"
DECODE = re.compile(
    rb"Decode batch,? #running-req: ([0-9]+), #token: ([0-9]+), token usage: " + NUMBER
    + rb", accept len: " + NUMBER + rb", accept rate: " + NUMBER
    + rb", cuda graph: ([A-Za-z]+), gen throughput \(token/s\): " + NUMBER
    + rb", #queue-req: ([0-9]+)"
)  # fmt: skip
PREFILL = re.compile(
    rb"Prefill batch, #new-seq: ([0-9]+), #new-token: ([0-9]+), #cached-token: ([0-9]+), "
    rb"token usage: " + NUMBER + rb", #running-req: ([0-9]+), #queue-req: ([0-9]+)"
)
Row = tuple[object, ...]


def main() -> None:
    """Count the records of the file given as the only argument."""
    decodes: list[Row] = []
    prefills: list[Row] = []
    last, at = b"", datetime.min
    with open(sys.argv[1], "rb") as file:
        for line in file:
            decode, prefill = DECODE.search(line, 20), None
            if decode is None:
                prefill = PREFILL.search(line, 20)
            if decode is None and prefill is None:
                continue
            if line[1:20] != last:
                last = line[1:20]
                at = datetime.fromisoformat(last.decode())
            if decode is not None:
                n, tokens, usage, length, rate, graph, speed, queue = decode.groups()
                decodes.append(
                    (at, int(n), int(tokens), float(usage), float(length), float(rate),
                     graph == b"True", float(speed), int(queue))
                )  # fmt: skip
            elif prefill is not None:
                seqs, new, cached, usage, n, queue = prefill.groups()
                prefills.append(
                    (at, int(seqs), int(new), int(cached), float(usage), int(n), int(queue))
                )
    print(len(decodes) + len(prefills))


if __name__ == "__main__":
    main()
