"""Whether a text is a server's log or may hold a benchmark's table, told without reading it."""

from __future__ import annotations

import re

# What a log of a running server has and a benchmark's transcript has not.
_SERVER_LOG = re.compile(
    r"Decode batch|Prefill batch|Avg (?:prompt|generation) throughput|server_args=ServerArgs"
    r"|server_args=\{|vLLM API server version|The server is fired up|Starting vLLM server"
    r"|SpecDecoding metrics"
)
# What a client prints before its first request. Its tracebacks run through the engine's package.
_CLIENT = re.compile(r"benchmark_args=Namespace\(|Namespace\(.*\bbench_type='serve'")
TITLE = " Benchmark Result ="


def is_server_log(text: str) -> bool:
    """Whether the text holds lines of a running server."""
    return _SERVER_LOG.search(text) is not None


def is_transcript(text: str) -> bool:
    """Whether the text is what a benchmark client printed, with no line of a running server."""
    return _CLIENT.search(text) is not None and not is_server_log(text)
