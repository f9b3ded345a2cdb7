"""vLLM's dated facts: arguments, start-up, capacity, overrides, retractions, faults, stops."""

from __future__ import annotations

from parsers.rules import Rule, boot, dump, effect, fault, milestone, note, override, stop
from parsers.vllm_cards import CONCURRENCY, read_args, read_cache, read_engine

_VERSION = r"(?P<engine_version>[0-9]\S*)"
_N = "[0-9,]*[0-9]"  # counts from 0.8 on have a comma every three digits
_GIB = r"(?P<memory_gb>[0-9.]+) Gi?B"  # 2^30 bytes under either name
_SECONDS = r"(?P<duration_s>[0-9.]+) s"


_START = (
    boot("  version ", "vLLM {engine_version}", rf"[█▀▄] +version {_VERSION}"),
    boot("  model ", "Model {model}", r"[█▀▄] +model +(?P<model>\S+)"),
    boot("API server version", "vLLM {engine_version}", rf"vLLM API server version {_VERSION}"),
    boot(
        "vLLM server version",
        "vLLM {engine_version}",
        r"vLLM server version (?P<engine_version>[^\s,]+), serving model (?P<model>\S+)",
    ),
    dump(
        "args", "non-default args: ", "Arguments set by the user", r"^non-default args: ", read_args
    ),
    dump("args", "args: Namespace(", "Server arguments", r"^args: Namespace\(", read_args),
    dump(
        "engine",
        " engine (v",
        "Engine {engine_version} starts",
        r"^Initializing an? .*engine \(v(?P<engine_version>[^)]+)\) with config: ",
        read_engine,
    ),
    dump(
        "engine",
        "Initializing an LLM engine with config",
        "Engine starts",
        r"^Initializing an LLM engine with config: ",
        read_engine,
    ),
    note(
        "platform",
        "Automatically detected platform",
        "Platform {hardware}",
        r"^Automatically detected platform (?P<hardware>\w+)\.",
    ),
    note("ready", "Application startup complete", "Ready", r"^Application startup complete"),
)
_CAPACITY = (
    Rule(
        "KV cache size:",
        "capacity",
        "KV cache: {tokens} tokens",
        rf"(?P<device>\w+(?: \+ host)?) KV cache size: (?P<tokens>{_N}) tokens"
        rf"(?:, Maximum concurrency for (?P<len>{_N}) tokens per request: (?P<max>[0-9.]+)x)?",
        read=read_cache,
    ),
    Rule(
        "Maximum concurrency for",
        "capacity",
        "Concurrency at full length: {max}",
        CONCURRENCY,
        read=read_cache,
    ),
    note(
        "capacity",
        "Available KV cache memory",
        "KV cache memory: {memory_gb} GiB",
        rf"Available KV cache memory: {_GIB}",
    ),
    note(
        "capacity",
        " blocks: ",
        "KV cache: {blocks} blocks",
        rf"^# (?P<device>\w+) blocks: (?P<blocks>{_N})(?:, # CPU blocks: (?P<cpu_blocks>{_N}))?",
    ),
    note(
        "capacity",
        "vllm cache_config_info",
        "KV cache: {blocks} blocks",
        rf"(?:Engine (?P<engine_index>[0-9]+)|(?P<engines>[0-9]+) Engines): vllm cache_config_info "
        rf".*num_gpu_blocks is: (?P<blocks>{_N})",
    ),
    note(
        "capacity",
        "Chunked prefill is enabled",
        "Chunked prefill",
        r"^Chunked prefill is enabled"
        rf"(?: with max_num_batched_tokens=(?P<max_num_batched_tokens>{_N}))?",
    ),
    override(
        "with num_gpu_blocks_override",
        "num_gpu_blocks overridden",
        rf"Overriding num_gpu_blocks={_N} with num_gpu_blocks_override=(?P<effective>{_N})",
        "num_gpu_blocks",
    ),
    override(
        "Auto-fit max_model_len",
        "max_model_len reduced to {effective}",
        rf"Auto-fit max_model_len: reduced from {_N} to (?P<effective>{_N})",
        "max_model_len",
    ),
    override(
        "Cudagraph is disabled under",
        "Graphs off: eager mode",
        r"^Cudagraph is disabled under eager mode",
        "cudagraph_mode",
        "off",
    ),
    override(
        "Asynchronous scheduling is disabled",
        "Asynchronous scheduling off",
        r"^Asynchronous scheduling is disabled",
        "async_scheduling",
        False,
    ),
    note(
        "fallback",
        "alling back to",
        "Your device lacks a feature: {what}",
        r"^Your device .*?does(?:n't| not) support (?P<what>[^.,]{1,80}).*?[Ff]alling back to "
        r"(?P<fallback>[^.,]{1,80})",
        severity="warning",
    ),
    note(
        "note",
        "have been overridden by the model",
        "Sampling defaults come from the model",
        r"^Default .*sampling parameters have been overridden by the model",
    ),
    note(
        "note",
        "CUDA graph memory profiling is enabled",
        "Graph memory counts towards the memory fraction",
        r"^CUDA graph memory profiling is enabled",
    ),
    note(
        "note",
        "exceeds max_num_seqs * max_model_len",
        "max_num_batched_tokens is larger than all requests together",
        rf"max_num_batched_tokens \((?P<max_num_batched_tokens>{_N})\) exceeds max_num_seqs",
    ),
    note(
        "note",
        "padding layers",
        "KV cache memory wasted by padding layers",
        r"^Add (?P<layers>[0-9]+) padding layers, may waste at most (?P<waste_pct>[0-9.]+)%",
    ),
    note(
        "note",
        "Setting attention block size",
        "Attention blocks of {block_size} tokens",
        r"^Setting attention block size to (?P<block_size>[0-9]+) tokens",
    ),
)
_MILESTONES = (
    milestone(
        "Model loading took",
        "Weights loaded",
        rf"Model loading took {_GIB} (?:memory )?and (?P<duration_s>[0-9.]+) seconds",
    ),
    milestone(
        "Loading model weights took", "Weights loaded", rf"Loading model weights took {_GIB}"
    ),
    milestone("Loading weights took", "Weights read", rf"Loading weights took {_SECONDS}econds"),
    milestone("torch.compile takes", "Compiled", rf"torch\.compile takes {_SECONDS} in total"),
    milestone(
        "Dynamo bytecode transform", "Traced", rf"Dynamo bytecode transform time: {_SECONDS}"
    ),
    milestone(
        "Compiling a graph for",
        "Graph compiled",
        rf"Compiling a graph for (?P<what>[\w ]+|compile range \([^)]*\)) takes {_SECONDS}",
    ),
    milestone(
        "the compiled graph(s) for",
        "Compiled graphs loaded",
        rf"Directly load the compiled graph\(s\) for .*took {_SECONDS}",
    ),
    milestone(
        "profiling/warmup run took", "Profiled", rf"Initial profiling/warmup run took {_SECONDS}"
    ),
    milestone(
        "Graph capturing finished",
        "Graphs captured",
        rf"Graph capturing finished in {_SECONDS}ecs(?:, took {_GIB})?",
    ),
    milestone(
        "CUDA graph pool memory",
        "Graph memory",
        rf"CUDA graph pool memory: {_GIB} \(actual\), (?P<estimated_gb>[0-9.]+) GiB \(estimated\)",
    ),
    milestone(
        "init engine (",
        "Engine initialised",
        rf"init engine \(.*?\) took {_SECONDS}(?:econds)?"
        r"(?: \(compilation: (?P<compile_s>[0-9.]+) s"
        r"(?: — language_model: (?P<compile_language_model_s>[0-9.]+) s, "
        r"encoder: (?P<compile_encoder_s>[0-9.]+) s)?\))?",
    ),
    milestone(
        "Starting vLLM ",
        "Listening",
        r"^Starting vLLM (?:API )?server (?:(?P<api_server_index>[0-9]+) )?on (?P<listen>\S+)",
    ),
)
_SERVING = (
    note(
        "preemption",
        "is preempted by PreemptionMode",
        "Preempted: KV cache full",
        r"Sequence group (?P<seq_group>\S+) is preempted by PreemptionMode\.(?P<mode>\w+)"
        rf"(?:.*total_num_cumulative_preemption=(?P<total_preemptions>{_N}))?",
        severity="warning",
    ),
    note(
        "stats_off",
        "disabling stats logging",
        "Stats lines switched off: several API servers",
        severity="warning",
    ),
    note(
        "stall",
        "No available shared memory broadcast block found",
        "No shared memory block for a minute: hang or slow start",
        rf"No available shared memory broadcast block found(?: in (?P<seconds>{_N}) second)?",
    ),
    stop("shutdown triggered", "Shutdown asked for", r"^\[shutdown\] .*shutdown triggered"),
    stop(
        "trigger received signal", "Shutdown asked for", r"^\[shutdown\] .*trigger received signal"
    ),
)
_FAULTS = (
    effect("engine core exited unexpectedly", "Engine core exited unexpectedly"),
    effect("EngineCore encountered a fatal error", "Engine core hit a fatal error"),
    fault("EngineCore hit an exception", "Engine core hit an exception"),
    effect("EngineCore failed to start", "Engine core failed to start"),
    effect(
        "Engine core initialization failed",
        "Engine core failed to start",
        r"Engine core initialization failed",
    ),
    effect("Engine process failed to start", "Engine process failed to start"),
    effect("output_handler failed", "Engine dead", r"^AsyncLLM output_handler failed"),
    fault(
        "died unexpectedly",
        "{what} died",
        r"(?P<what>(?:Engine core|Worker|RayWorkerProc)[\w= -]*?) (?:(?P<name>\S+) )?"
        r"died unexpectedly"
        r"(?: \(exit code: (?P<code>-?[0-9]+)\))?",
    ),
    fault(
        " died, exit code",
        "{what} died with exit code {code}",
        r"^Worker (?P<what>\w+) pid (?P<pid>[0-9]+) died, exit code: (?P<code>-?[0-9]+)",
    ),
    Rule(
        "Dumping input data for",
        "engine_dump",
        "Engine dumps its input before a fatal error",
        r"^Dumping input data for ",
        severity="warning",
        keep_text=False,
    ),
    effect("EngineDeadError", "Engine dead", r"EngineDeadError"),
    fault("out of memory occurred when warming up", "CUDA out of memory in warm-up"),
    fault(
        "To serve at least one request",
        "KV cache too small for one request",
        r"^(?:ValueError: )?To serve at least one request with the model.?s.? max seq len "
        rf"\((?P<max_model_len>{_N})\), \((?P<needed_gb>[0-9.]+) Gi?B KV cache is needed, which is "
        r"larger than the available KV cache memory \((?P<available_gb>[0-9.]+) Gi?B\)",
    ),
    fault(
        "RPC call to",
        "An engine call timed out",
        r"^(?:TimeoutError: )?RPC call to (?P<method>\w+) timed out",
    ),
    fault(
        "Timed out waiting for engine core",
        "The engine core did not start in time",
        r"Timed out waiting for engine core processes to start",
    ),
    note(
        "client_error",
        "Error in preprocessing prompt inputs",
        "A request was refused: its prompt",
        r"^Error in preprocessing prompt inputs",
    ),
    note(
        "client_error",
        "maximum context length is",
        "A request was refused: longer than the context",
        rf"This model's maximum context length is (?P<context_limit>{_N}) tokens",
    ),
)
RULES = (*_START, *_CAPACITY, *_MILESTONES, *_SERVING, *_FAULTS)
