"""Thousands of sequences against the model: `python -m tests.soak.model [SEQUENCES] [SEED]`.

20,000 by default. Prints a line a thousand and what went wrong; the exit code is 1 if anything
did. A seed given again draws the same sequences.
"""

from __future__ import annotations

import logging
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.tail_model import wrong

PART = 50  # sequences that share a process


def main() -> int:
    """Run the sequences in parts, each over a store of its own."""
    logging.disable(logging.WARNING)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 30)
    failures, begun = 0, time.monotonic()
    for start in range(0, count, PART):
        part = min(PART, count - start)
        with tempfile.TemporaryDirectory(prefix="servescope-soak-") as folder:
            for text in wrong(range(first + start, first + start + part), Path(folder)):
                failures += 1
                print(text, flush=True)
        if (start + part) % 1000 == 0 or start + part == count:
            seconds = time.monotonic() - begun
            print(f"{start + part} sequences, {failures} wrong, {seconds:.0f} s", flush=True)
    print(f"{count} sequences from seed {first}: {'exact' if not failures else 'NOT EXACT'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
