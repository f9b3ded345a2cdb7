"""Words of a fault where they are none: in arguments, or in what a client asked for.

A monitor that searches a log for "Traceback" rings for them; here they are told, with where they
stand, so that everybody can see that they were read and why they do not count.
"""

from __future__ import annotations

import re

from parsers.heads import Head
from parsers.server_args import redact_text

# Lines that quote what a client sent: any word can stand in them.
REQUEST = re.compile(r"(?:Receive|Finish)(?: OpenAI)?: obj=|Received request |Generated response ")
# Lines that name every argument or all of the scheduler's state: words in them mean nothing.
DUMP = re.compile(
    r"(?:\w+ )?server_args=|(?:non-default )?args: |Global server args updated|ServerArgs\("
    r"|Namespace\(|Dumping |Initializing an? .*engine .*with config"
)
_ALARM = re.compile(
    r"Traceback|OutOfMemoryError|(?:CUDA )?out of memory|CUDA error|NCCL error|Segmentation fault"
    r"|EngineDeadError|RuntimeError|SIGQUIT|\bKilled\b"
)
_ARGUMENT = re.compile(r"['\"]?([A-Za-z_][A-Za-z_0-9]*)['\"]?\s?[:=]")
_AROUND = 60  # characters of the line on both sides of the word


def harmless(head: Head) -> tuple[str, str | None] | None:
    """Title and quote where a line of arguments or of a request holds the words of a fault.

    What a client sent is never quoted.
    """
    message = head.message
    by_client = bool(REQUEST.match(message))
    if not by_client and not DUMP.match(message):
        return None
    alarm = _ALARM.search(message)
    if alarm is None:
        return None
    word = alarm[0]
    if by_client:
        return f"“{word}” in the text of a request", None
    clean = redact_text(message)
    at = clean.find(word)
    named = _ARGUMENT.findall(clean, 0, max(at, 0))
    where = f"the argument {named[-1]}" if named else "the server's arguments"
    quote = clean[max(at - _AROUND, 0) : at + len(word) + _AROUND] if at >= 0 else None
    return f"“{word}” in {where}", quote
