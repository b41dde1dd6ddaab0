"""17: hidden reasoning before an answer, and what it takes."""

from observatory.studies.ready_made.base import MODEL, Json, ReadyMade, Short, Sketch, llamacpp

_PROMPT, _ANSWER = 64, 32
#: Bits per weight of the packaged file, and gigabytes that each token reads.
_BITS, _PARAMETERS_B = 5.7, 0.1345
_READ_GB = _PARAMETERS_B * _BITS / 8
#: The model's own template, and behind it a place to think, as models that reason have it.
_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.role == 'assistant' and message.reasoning_content -%}"
    "{{ '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}"
    "{%- endif -%}"
    "{{ message.content + '<|im_end|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{{ '<|im_start|>assistant\\n<think>\\n' + ('' if enable_thinking else '\\n</think>\\n\\n') }}"
    "{%- endif -%}"
)
_ENGINE = llamacpp(MODEL, n_parallel=1, n_ctx=2048, chat_template=_TEMPLATE)


def _reasons(tokens: int) -> Sketch:
    """Its answer is as long as that of the others; the budget ends the reasoning."""
    body: Json = {"thinking_budget_tokens": tokens} if tokens else {"chat_template_kwargs": {"enable_thinking": False}}
    spec: Json = {"workload": {"output_tokens": _ANSWER + tokens}, "target": {"extra_body": body}}
    return Sketch(f"{tokens} reasoning tokens" if tokens else "no reasoning", _ENGINE, spec, x=tokens)


REASONING = ReadyMade(
    slug="reasoning-length",
    number=17,
    title="Reasoning length",
    question="What does an answer take when hidden reasoning comes before it?",
    arms=(_reasons(0), _reasons(64), _reasons(256)),
    spec={
        "target": {"extra_body": {"timings_per_token": True}},
        "workload": {"input_tokens": _PROMPT, "output_tokens": _ANSWER},
        "load": {"levels": [1], "requests": 12, "warmup_s": 1},
        "power": {"idle_s": 2},
    },
    short=Short({"load": {"requests": 7, "warmup_s": 0}}, arms=("no reasoning", "64 reasoning tokens")),
    measures=(
        {"metric": "wh_per_query"},
        {"metric": "first_answer_ms", "statistic": "mean"},
        {"metric": "reasoning_tokens", "statistic": "mean"},
        {"metric": "output_tokens", "statistic": "mean"},
    ),
    prediction={
        "calculator": "on-device",
        "output": "wh_per_answer",
        "as": "ratio",
        "inputs": {
            "parameters_b": _PARAMETERS_B,
            "weight_bits": _BITS,
            "prompt_tokens": _PROMPT,
            "output_tokens": "arm.output_tokens",
            "prefill_tokens_per_s": "baseline.prefill_tokens_per_s",
            "bandwidth_gb_s": f"baseline.decode_steps_per_s * {_READ_GB:.4g}",
            "bandwidth_efficiency": 1,
            "sustained_share": 1,
        },
    },
    factor="reasoning tokens",
    look_for="A hidden token takes as much time, energy and money as a shown one: a short answer becomes several times "
    "as dear while the reader sees the same. The time to the first answer grows by the whole of the reasoning, that to "
    "the first token does not.",
    limits="The packaged model was never trained to reason. A template opens its answers with a thought and the "
    "server's budget ends it: lengths, time and energy are real, but the thoughts make no answer better, so that this "
    "shows the price of reasoning and not its worth. Models that reason choose the length themselves, often thousands "
    "of tokens, where the cache's growth makes late tokens dearer.",
)
