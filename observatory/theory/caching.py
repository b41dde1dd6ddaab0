"""The KV cache: what a token takes, how many requests fit when it is reserved or paged, and what shared prefixes save.

Sizes: Shazeer 2019 (multi-query attention), Ainslie et al. 2023 (GQA), DeepSeek-AI 2024 (DeepSeek-V2, MLA). Reserved
against paged: Kwon et al. 2023, Efficient Memory Management for Large Language Model Serving with PagedAttention.
"""

from dataclasses import dataclass, replace
from math import ceil, floor

from observatory.theory.calculator import Axis, Calculator, Plot, refuse
from observatory.theory.common import GIGA, Cache, Memory, Weights, cache_bytes_per_token, cache_share, weight_bytes
from observatory.theory.fields import number, result


@dataclass(frozen=True)
class Requests:
    reserved_tokens: int = number(
        8192,
        "tok",
        "Longest request",
        "What a server without paging reserves for each.",
        low=1,
        high=10_000_000,
        symbol="T_max",
        group="Load",
    )
    mean_tokens: int = number(
        1000, "tok", "Mean request", "Prompt and answer.", low=1, high=10_000_000, symbol="T", group="Load"
    )
    block_tokens: int = number(16, "tok", "Block", "Of a paged cache.", low=1, high=4096, symbol="p", group="Load")
    heads: int = number(64, "", "Query heads", "For comparison with MHA.", low=1, high=4096, group="Model")
    accelerators: int = number(
        4, "", "Accelerators", "That hold one copy of the model.", low=1, high=4096, symbol="G", group="Hardware"
    )


@dataclass(frozen=True)
class Inputs(Memory, Requests, Cache, Weights):
    """Requests, model and memory."""


@dataclass(frozen=True)
class Row:
    kind: str = result(label="Attention")
    bytes_per_token: float = result("kB/tok", "Cache")
    reserved: int = result("", "Requests, reserved")
    paged: int = result("", "Requests, paged")


@dataclass(frozen=True)
class Outputs:
    kb_per_token: float = result("kB/tok", "Cache of one token", "Over all layers, one copy.", better="lower")
    free_gb: float = result("GB", "Memory left for the cache", "Of one accelerator, beside its weights.")
    tokens: int = result("tok", "Tokens that fit")
    reserved_requests: int = result("", "Requests, reserved", "Each holds room for the longest.", better="higher")
    paged_requests: int = result("", "Requests, paged", "Each holds the blocks that it fills.", better="higher")
    gain: float | None = result("×", "Gain of paging", "Missing when nothing fits reserved.", better="higher")
    reserved_waste: float = result("%", "Waste, reserved", "Of the cache that is taken.", decimals=1, better="lower")
    paged_waste: float = result("%", "Waste, paged", "The last block's empty part.", decimals=1, better="lower")
    table: tuple[Row, ...] = result(label="By kind of attention", help="the same layers and head width")


def _tokens(inputs: Inputs) -> int:
    """Tokens of cache that fit on each accelerator beside its weights."""
    free = inputs.memory_gb * GIGA * inputs.usable_share - weight_bytes(inputs) / inputs.accelerators
    return max(0, floor(free / (cache_bytes_per_token(inputs) * cache_share(inputs, inputs.accelerators))))


def _paged_tokens(inputs: Inputs) -> int:
    """What a mean request holds: whole blocks."""
    return ceil(inputs.mean_tokens / inputs.block_tokens) * inputs.block_tokens


def _row(kind: str, inputs: Inputs) -> Row:
    tokens = _tokens(inputs)
    kilobytes = cache_bytes_per_token(inputs) / 1000
    return Row(kind, kilobytes, tokens // inputs.reserved_tokens, tokens // _paged_tokens(inputs))


def _kinds(inputs: Inputs) -> tuple[Row, ...]:
    plain = replace(inputs, latent_dim=0)
    return (
        _row("MHA", replace(plain, kv_heads=inputs.heads)),
        _row(f"GQA, {inputs.kv_heads} heads", plain),
        _row("MQA", replace(plain, kv_heads=1)),
        _row("MLA, 576 values", replace(inputs, latent_dim=inputs.latent_dim or 576)),
    )


def compute(inputs: Inputs) -> Outputs:
    """Requests that fit and the waste, reserved and paged."""
    if inputs.mean_tokens > inputs.reserved_tokens:
        raise refuse("mean_tokens", "The mean exceeds the longest request.", f"At most {inputs.reserved_tokens}.")
    tokens, held = _tokens(inputs), _paged_tokens(inputs)
    reserved, paged = tokens // inputs.reserved_tokens, tokens // held
    free = inputs.memory_gb * GIGA * inputs.usable_share - weight_bytes(inputs) / inputs.accelerators
    return Outputs(
        cache_bytes_per_token(inputs) / 1000,
        max(free, 0.0) / GIGA,
        tokens,
        reserved,
        paged,
        paged / reserved if reserved else None,
        100 * (1 - inputs.mean_tokens / inputs.reserved_tokens),
        100 * (1 - inputs.mean_tokens / held),
        _kinds(inputs),
    )


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    counts = Axis("Requests that fit", "", "higher")
    lines = tuple(
        KV_CACHE.line(inputs, "mean_tokens", name, label)
        for name, label in (("paged_requests", "paged"), ("reserved_requests", "reserved"))
    )
    bits = tuple(
        KV_CACHE.line(inputs, "memory_gb", "paged_requests", f"cache at {bits} bits", kv_bits=float(bits))
        for bits in (16, 8, 4)
    )
    return (
        Plot("Requests over their mean length", Axis("Mean request", "tok"), counts, lines, now=inputs.mean_tokens),
        Plot("Requests over memory, paged", Axis("Memory of one", "GB"), counts, bits, now=inputs.memory_gb),
    )


KV_CACHE = Calculator(
    name="kv-cache",
    title="KV cache",
    subject="Batching and caching",
    summary="Bytes per token by kind of attention, and how many requests fit when each reserves its longest length or "
    "takes blocks on demand.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "c = 2·L·h_kv·d·b_kv; with MLA c = L·d_c·b_kv",
        "tokens = (M·usable − N·b/G) / (c·s), s = max(1/G, 1/h_kv) (MLA: 1)",
        "reserved = tokens / T_max, waste 1 − T/T_max",
        "paged = tokens / T_p, T_p = p·⌈T/p⌉, waste 1 − T/T_p",
    ),
    symbols={
        "c": "bytes of one token",
        "b, b_kv": "bytes per weight and per cached value",
        "s": "share per accelerator",
    },
    source="Kwon et al. 2023, PagedAttention (vLLM); Shazeer 2019, multi-query attention; Ainslie et al. 2023, GQA; "
    "DeepSeek-AI 2024, DeepSeek-V2 (MLA).",
    assumptions=(
        "Every request has the mean length: spread costs some of the paged gain back as preemption.",
        "Heads are divided over the accelerators, but one head is never split; a latent is held by all.",
        "No prefix is shared. GB are 1e9 bytes.",
    ),
    plots=_plots,
)


@dataclass(frozen=True)
class PrefixInputs:
    prompt_tokens: int = number(2000, "tok", "Prompt", "Mean.", low=1, high=10_000_000, symbol="P")
    shared_tokens: int = number(
        1500, "tok", "Shared prefix", "Such as the system prompt and earlier turns.", low=0, high=10_000_000, symbol="S"
    )
    hit_rate: float = number(0.8, "", "Hit rate", "Requests whose prefix is still cached.", low=0, high=1, symbol="r")
    output_tokens: int = number(300, "tok", "Answer", "Mean.", low=1, high=10_000_000, symbol="O")
    prefill_tokens_per_s: float = number(
        10_000, "tok/s", "Prefill speed", "Measured, or from prefill.", low=0.1, high=1e8, symbol="v_p"
    )
    decode_tokens_per_s: float = number(
        2000,
        "tok/s",
        "Decode speed, in all",
        "Over the batch. Measured, or from decode-limit.",
        low=0.1,
        high=1e8,
        symbol="v_d",
    )
    input_usd_per_mtok: float = number(1.0, "$/Mtok", "Input price", "", low=0, high=10_000, symbol="p_in")
    cached_usd_per_mtok: float = number(0.1, "$/Mtok", "Price of cached input", "", low=0, high=10_000, symbol="p_c")
    output_usd_per_mtok: float = number(4.0, "$/Mtok", "Output price", "", low=0, high=10_000, symbol="p_out")


@dataclass(frozen=True)
class PrefixOutputs:
    saved_share: float = result("%", "Prompt tokens not read again", decimals=1, better="higher")
    ttft_ms: float = result("ms", "Prefill, mean", "Over hits and misses.", better="lower")
    ttft_hit_ms: float = result("ms", "Prefill on a hit", better="lower")
    ttft_miss_ms: float = result("ms", "Prefill on a miss")
    throughput_gain: float = result(
        "×", "Throughput gain", "Requests per second of a server that does both phases.", decimals=2, better="higher"
    )
    usd_per_query: float = result("$", "Cost per query", "At these API prices.", better="lower")
    usd_per_query_uncached: float = result("$", "Without a cache")
    cost_saving: float | None = result(
        "%", "Cost saved", "Missing when nothing costs anything.", decimals=1, better="higher"
    )


def _prefix(inputs: PrefixInputs) -> PrefixOutputs:
    if inputs.shared_tokens >= inputs.prompt_tokens:
        raise refuse("shared_tokens", "At least one token must be new.", f"At most {inputs.prompt_tokens - 1}.")
    saved = inputs.hit_rate * inputs.shared_tokens
    read_s = (inputs.prompt_tokens - saved) / inputs.prefill_tokens_per_s
    miss_s = inputs.prompt_tokens / inputs.prefill_tokens_per_s
    hit_s = (inputs.prompt_tokens - inputs.shared_tokens) / inputs.prefill_tokens_per_s
    decode_s = inputs.output_tokens / inputs.decode_tokens_per_s
    output_usd = inputs.output_tokens * inputs.output_usd_per_mtok
    without = (inputs.prompt_tokens * inputs.input_usd_per_mtok + output_usd) / 1e6
    usd = without - saved * (inputs.input_usd_per_mtok - inputs.cached_usd_per_mtok) / 1e6
    return PrefixOutputs(
        100 * saved / inputs.prompt_tokens,
        read_s * 1e3,
        hit_s * 1e3,
        miss_s * 1e3,
        (miss_s + decode_s) / (read_s + decode_s),
        usd,
        without,
        100 * (1 - usd / without) if without else None,
    )


def _prefix_plots(inputs: PrefixInputs, outputs: PrefixOutputs) -> tuple[Plot, ...]:
    rate = Axis("Hit rate")
    return (
        Plot(
            "Prefill over hit rate",
            rate,
            Axis("Prefill, mean", "ms", "lower"),
            (PREFIX_CACHE.line(inputs, "hit_rate", "ttft_ms", "mean"),),
            now=inputs.hit_rate,
        ),
        Plot(
            "Cost over hit rate",
            rate,
            Axis("Cost per query", "$", "lower"),
            (PREFIX_CACHE.line(inputs, "hit_rate", "usd_per_query", "with the cache"),),
            now=inputs.hit_rate,
        ),
    )


PREFIX_CACHE = Calculator(
    name="prefix-cache",
    title="Prefix caching",
    subject="Batching and caching",
    summary="What keeping the keys and values of shared prefixes saves: prefill time, throughput, and money at "
    "prices with a discount for cached input.",
    inputs=PrefixInputs,
    outputs=PrefixOutputs,
    compute=_prefix,
    formula=(
        "read anew = P − r·S",
        "prefill = (P − r·S) / v_p",
        "throughput gain = (P/v_p + O/v_d) / ((P − r·S)/v_p + O/v_d)",
        "cost = (P − r·S)·p_in + r·S·p_c + O·p_out",
    ),
    source="Kwon et al. 2023, PagedAttention, section 4.4 (shared prefixes); Zheng et al. 2024, SGLang "
    "(RadixAttention). Prices per token as providers of cached input state them.",
    assumptions=(
        "Prefill time is proportional to the tokens read: attention to the cached part is left out (prefill has it).",
        "One server does both phases by turns, so that time saved in prefill is time for more requests.",
        "Writing to the cache costs nothing extra; some providers charge for it.",
    ),
    plots=_prefix_plots,
)
