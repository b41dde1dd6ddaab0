"""One good answer of each dialect, as its servers send it: what a new dialect adds here, the contract tests."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from runners.spec import Dialect


def sse(data: Any, name: str = "") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def named(events: Iterable[dict[str, Any]]) -> tuple[bytes, ...]:
    return tuple(sse(event, event["type"]) for event in events)


def lines(*objects: dict[str, Any]) -> tuple[bytes, ...]:
    return tuple(json.dumps(item).encode() + b"\n" for item in objects)


@dataclass(frozen=True)
class Sample:
    """``stream`` and ``whole`` say "Hello"; ``tokens`` numbers the pieces of the stream that are token events.

    ``usage`` is (input, cached, output, reasoning); ``timings`` are milliseconds of prompt and decode.
    """

    whole: Any
    error: bytes | dict[str, Any]
    usage: tuple[int | None, ...]
    stream: tuple[bytes, ...] = ()
    tokens: tuple[int, ...] = ()
    finish: str | None = None
    event_tokens: list[int] | None = None
    timings: tuple[float | None, float | None] = (None, None)
    whole_timings: tuple[float | None, float | None] = (None, None)


LLAMACPP_TIMINGS = {"cache_n": 4, "prompt_n": 6, "prompt_ms": 12.5, "predicted_n": 2, "predicted_ms": 33.0}
OPENAI_USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 3,
    "total_tokens": 13,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 1},
}


def chat(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    return sse({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})


def completion(text: str, finish: str | None = None, **more: Any) -> bytes:
    return sse({"model": "m", "choices": [{"index": 0, "text": text, "finish_reason": finish}], **more})


CHAT = Sample(
    stream=(
        chat({"role": "assistant", "content": ""}),
        chat({"reasoning_content": "hm"}),
        chat({"content": "Hel"}),
        chat({"content": "lo"}),
        chat({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "f", "arguments": ""}}]}),
        chat({"tool_calls": [{"index": 0, "function": {"arguments": '{"a": 1}'}}]}),
        chat({}, "stop"),
        sse({"model": "m", "choices": [], "usage": OPENAI_USAGE, "timings": LLAMACPP_TIMINGS}),
        sse("[DONE]"),
    ),
    tokens=(1, 2, 3, 4, 5),
    finish="stop",
    usage=(10, 4, 3, 1),
    timings=(12.5, 33.0),
    whole={
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
        "usage": OPENAI_USAGE,
    },
    error=sse({"error": {"message": "out of memory", "code": 500}}),
)

COMPLETIONS = Sample(
    stream=(
        completion("Hel"),
        completion("lo"),
        completion("", "length"),
        sse({"model": "m", "choices": [], "usage": OPENAI_USAGE}),
        sse("[DONE]"),
    ),
    tokens=(0, 1),
    finish="length",
    usage=(10, 4, 3, 1),
    whole={"model": "m", "choices": [{"index": 0, "text": "Hello", "finish_reason": "length"}], "usage": OPENAI_USAGE},
    error=sse({"error": {"message": "out of memory"}}),
)

RESPONSES_END = {
    "id": "resp_1",
    "object": "response",
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
    "model": "m",
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]},
    ],
    "usage": {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 13,
    },
}
RESPONSES = Sample(
    stream=named(
        (
            {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "model": "m"}},
            {"type": "response.in_progress", "response": {"id": "resp_1", "status": "in_progress"}},
            {"type": "response.output_item.added", "item": {"type": "reasoning", "summary": []}},
            {"type": "response.reasoning_summary_text.delta", "delta": "hm", "sequence_number": 4},
            {"type": "response.output_item.added", "item": {"type": "message", "content": []}},
            {"type": "response.content_part.added", "part": {"type": "output_text", "text": ""}},
            {"type": "response.output_text.delta", "delta": "Hel", "sequence_number": 7},
            {"type": "response.output_text.delta", "delta": "lo", "sequence_number": 8},
            {"type": "response.output_text.done", "text": "Hello"},
            {"type": "response.output_item.added", "item": {"type": "function_call", "name": "f", "arguments": ""}},
            {"type": "response.function_call_arguments.delta", "delta": '{"a": 1}', "sequence_number": 11},
            {"type": "response.function_call_arguments.done", "arguments": '{"a": 1}', "sequence_number": 12},
            {"type": "response.incomplete", "response": RESPONSES_END},
        )
    ),
    tokens=(3, 6, 7, 9, 10),
    finish="length",
    usage=(10, 4, 3, 1),
    whole=RESPONSES_END,
    error=sse({"type": "error", "code": "server_error", "message": "out of memory"}, "error"),
)

ANTHROPIC_USAGE = {"input_tokens": 4, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2}
ANTHROPIC = Sample(
    stream=named(
        (
            {"type": "message_start", "message": {"model": "m", "usage": {**ANTHROPIC_USAGE, "output_tokens": 1}}},
            {"type": "ping"},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "xyz"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hel"}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "lo"}},
            {"type": "content_block_stop", "index": 1},
            {
                "type": "content_block_start",
                "index": 2,
                "content_block": {"type": "tool_use", "name": "f", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 2,
                "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'},
            },
            {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        )
    ),
    tokens=(3, 7, 8, 10, 11),
    finish="length",
    usage=(10, 4, 5, None),
    whole={
        "type": "message",
        "model": "m",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "max_tokens",
        "usage": {**ANTHROPIC_USAGE, "output_tokens": 5},
    },
    error=sse({"type": "error", "error": {"type": "overloaded_error", "message": "out of memory"}}, "error"),
)

OLLAMA_END = {
    "model": "m",
    "done": True,
    "done_reason": "length",
    "total_duration": 99_000_000,
    "load_duration": 1_000_000,
    "prompt_eval_count": 10,
    "prompt_eval_duration": 12_500_000,
    "eval_count": 3,
    "eval_duration": 33_000_000,
}
OLLAMA_CALL = {"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}
OLLAMA_CHAT = Sample(
    stream=lines(
        {"model": "m", "created_at": "1", "message": {"role": "assistant", "content": ""}, "done": False},
        {"model": "m", "created_at": "2", "message": {"role": "assistant", "thinking": "hm"}, "done": False},
        {"model": "m", "created_at": "3", "message": {"role": "assistant", "content": "Hel"}, "done": False},
        {"model": "m", "created_at": "4", "message": {"role": "assistant", "content": "lo"}, "done": False},
        {
            "model": "m",
            "created_at": "5",
            "message": {"role": "assistant", "content": "", **OLLAMA_CALL},
            "done": False,
        },
        {**OLLAMA_END, "message": {"role": "assistant", "content": ""}},
    ),
    tokens=(1, 2, 3, 4),
    finish="length",
    usage=(10, None, 3, None),
    timings=(12.5, 33.0),
    whole={**OLLAMA_END, "message": {"role": "assistant", "content": "Hello"}},
    whole_timings=(12.5, 33.0),
    error=b'{"error": "out of memory"}\n',
)
OLLAMA_GENERATE = Sample(
    stream=lines(
        {"model": "m", "response": "Hel", "done": False},
        {"model": "m", "response": "lo", "done": False},
        {**OLLAMA_END, "response": ""},
    ),
    tokens=(0, 1),
    finish="length",
    usage=(10, None, 3, None),
    timings=(12.5, 33.0),
    whole={**OLLAMA_END, "response": "Hello"},
    whole_timings=(12.5, 33.0),
    error=b'{"error": "out of memory"}\n',
)

TGI_DETAILS = {"finish_reason": "length", "generated_tokens": 3, "input_length": 10, "seed": None}


def tgi(index: int, text: str, special: bool = False, **more: Any) -> bytes:
    token = {"id": 7, "text": text, "logprob": -1.0, "special": special}
    return sse({"index": index, "token": token, "generated_text": None, "details": None, **more})


TGI = Sample(
    stream=(
        tgi(1, "Hel"),
        tgi(2, "lo"),
        tgi(3, "</s>", special=True, generated_text="Hello", details=TGI_DETAILS),
    ),
    tokens=(0, 1),
    finish="length",
    usage=(10, None, 3, None),
    event_tokens=[1, 1],
    whole={"generated_text": "Hello", "details": TGI_DETAILS},
    error=sse({"error": "out of memory", "error_type": "generation"}),
)


def triton(text: str) -> dict[str, Any]:
    return {"model_name": "m", "model_version": "1", "sequence_id": 0, "text_output": text}


TRITON = Sample(
    stream=(sse(triton("Hel")), sse(triton("lo")), sse(triton(""))),
    tokens=(0, 1),
    usage=(None, None, None, None),
    whole=triton("Hello"),
    error=sse({"error": "out of memory"}),
)


def llamacpp(text: str, count: int, stop: bool = False, **more: Any) -> dict[str, Any]:
    return {"index": 0, "content": text, "stop": stop, "tokens_predicted": count, "tokens_evaluated": 10, **more}


LLAMACPP_END = llamacpp("", 2, stop=True, stop_type="limit", model="m", timings=LLAMACPP_TIMINGS)
LLAMACPP = Sample(
    stream=(sse(llamacpp("Hel", 1)), sse(llamacpp("lo", 2)), sse(LLAMACPP_END)),
    tokens=(0, 1),
    finish="length",
    usage=(10, 4, 2, None),
    event_tokens=[1, 1],
    timings=(12.5, 33.0),
    whole={**LLAMACPP_END, "content": "Hello"},
    whole_timings=(12.5, 33.0),
    error=sse({"error": {"message": "out of memory"}}),
)

EMBEDDINGS = Sample(
    whole={
        "model": "m",
        "data": [{"index": 0, "object": "embedding", "embedding": [0.1, -0.2]}],
        "usage": {"prompt_tokens": 10, "total_tokens": 10},
    },
    usage=(10, None, None, None),
    error={"error": {"message": "out of memory"}},
)
RERANK = Sample(
    whole={
        "model": "m",
        "results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}],
        "usage": {"total_tokens": 10},
    },
    usage=(10, None, None, None),
    error={"error": {"message": "out of memory"}},
)

SAMPLES: dict[Dialect, Sample] = {
    Dialect.OPENAI_CHAT: CHAT,
    Dialect.OPENAI_COMPLETIONS: COMPLETIONS,
    Dialect.OPENAI_RESPONSES: RESPONSES,
    Dialect.ANTHROPIC_MESSAGES: ANTHROPIC,
    Dialect.OLLAMA_CHAT: OLLAMA_CHAT,
    Dialect.OLLAMA_GENERATE: OLLAMA_GENERATE,
    Dialect.TGI_GENERATE: TGI,
    Dialect.TRITON_GENERATE: TRITON,
    Dialect.LLAMACPP_COMPLETION: LLAMACPP,
    Dialect.OPENAI_EMBEDDINGS: EMBEDDINGS,
    Dialect.RERANK: RERANK,
}
STREAMED = {dialect: sample for dialect, sample in SAMPLES.items() if sample.stream}
