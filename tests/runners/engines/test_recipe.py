from typing import Any

import pytest
import xllamacpp

from runners.engines.llamacpp import _ENUMS, _value
from runners.engines.llamacpp_options import OPTIONS as LLAMA_OPTIONS
from runners.engines.options import Kind
from runners.engines.packaged import MODEL_NAME
from runners.engines.recipe import Recipe, SpecError

LLAMA = {"engine": "llama.cpp"}
VLLM = {"engine": "vllm", "model": "/models/m"}
COMMAND = {"engine": "command", "command": "serve --port {port}"}


def router(*upstreams: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"engine": "router", "options": {**options, "upstreams": list(upstreams)}}


@pytest.mark.parametrize(
    "data",
    [
        LLAMA,
        LLAMA | {"model": f"{MODEL_NAME}:Q8_0:layers=20", "threads": 2, "cores": [0, 1], "ready_s": 20.0},
        LLAMA | {"options": {"n_parallel": 4, "cache_type_k": "Q8_0", "speculative.types": ["NGRAM_MOD"]}},
        VLLM | {"options": {"lora-modules": [f"a={MODEL_NAME}:LORA:seed=2", "b=/adapters/b", '{"name": "c"}']}},
        VLLM | {"options": {"enforce-eager": True, "speculative-config": {"method": "ngram"}, "max-num-seqs": 1}},
        VLLM | {"environment": {"VLLM_CPU_KVCACHE_SPACE": "2"}},
        COMMAND | {"environment": {"ANYTHING": "1"}},
        router(LLAMA, VLLM, LLAMA, policy="prefix-affinity", prefix_bytes=64),
        router(LLAMA, LLAMA, policy="rules", hard_words=["prove"], max_words=9),
    ],
)
def test_a_recipe_is_what_its_json_says(data: dict[str, Any]) -> None:
    assert Recipe.from_json(data).to_json() == data


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"engine": "sglang"}, "not one of llama.cpp, vllm, command"),
        (LLAMA | {"modell": "m"}, "no such field"),
        (LLAMA | {"options": {"n_paralel": 4}}, "did you mean n_parallel"),
        (LLAMA | {"options": {"n_parallel": 0}}, "0 is not an integer of at least 1 and at most 256"),
        (LLAMA | {"options": {"n_parallel": True}}, "true is not an integer"),
        (LLAMA | {"options": {"cache_type_k": "q8"}}, "F32, F16, BF16, Q8_0"),
        (LLAMA | {"options": {"speculative.types": "NGRAM_MOD"}}, "is not some of a list"),
        (LLAMA | {"options": {"cont_batching": "off"}}, "is not true or false"),
        (LLAMA | {"model": f"{MODEL_NAME}:Q3_K"}, "forms are F16, BF16, Q8_0"),
        (LLAMA | {"model": f"{MODEL_NAME}:Q8_0:layers=31"}, "keep 2 to 30"),
        (LLAMA | {"model": f"{MODEL_NAME}:HF"}, "does not read HF"),
        (LLAMA | {"options": {"speculative.draft.mparams.path": f"{MODEL_NAME}:HF"}}, "does not read HF"),
        (LLAMA | {"threads": 0}, "1 or more"),
        (LLAMA | {"cores": [0, 0]}, "each core's number once"),
        (LLAMA | {"ready_s": 0}, "more than 0"),
        (LLAMA | {"command": "x {port}"}, 'only for the engine "command"'),
        (LLAMA | {"environment": {"LD_PRELOAD": "/tmp/x.so"}}, "names begin with OMP_"),
        ({"engine": "vllm"}, "say which model vLLM serves"),
        (VLLM | {"options": {"max_num_seqs": 1}}, "did you mean max-num-seqs"),
        (VLLM | {"options": {"hf-overrides": "{}"}}, "is not an object"),
        (VLLM | {"model": f"{MODEL_NAME}:Q8_0"}, f"write such as {MODEL_NAME}:HF"),
        (VLLM | {"model": f"{MODEL_NAME}:LORA"}, f"name it in lora-modules, such as a={MODEL_NAME}:LORA"),
        (VLLM | {"model": f"{MODEL_NAME}:HF:seed=1"}, "a seed is of an adapter"),
        (VLLM | {"options": {"lora-modules": ["/adapters/a"]}}, "is no name=folder"),
        (VLLM | {"options": {"lora-modules": [f"a={MODEL_NAME}:HF"]}}, f"HF is no adapter; write it as a={MODEL_NAME}"),
        (LLAMA | {"model": f"{MODEL_NAME}:LORA"}, "an adapter goes with a model"),
        (VLLM | {"threads": 2}, "only for llama.cpp"),
        ({"engine": "command", "command": "serve"}, "with {port} where the port goes"),
        ({"engine": "command", "command": "serve '{port}"}, "No closing quotation"),
        ({"engine": "command", "command": "serve {port} {model}"}, "the command has {model}"),
        (COMMAND | {"environment": {"A B": "1"}}, "no name or value"),
        ({"engine": "router"}, "give at least one"),
        (router(), "is not a list of recipes"),
        (router(LLAMA, policy="fastest"), "one of a list: round-robin, least-outstanding"),
        (router(LLAMA, policy="confidence"), "give the small model first"),
        (router(LLAMA, LLAMA | {"options": {"n_paralel": 4}}), "upstreams[1].options.n_paralel: no such option"),
        (router(router(LLAMA)), "no router behind a router"),
        (router(LLAMA) | {"model": "m"}, "say it in each of the upstreams"),
        (router(LLAMA) | {"environment": {"OMP_WAIT_POLICY": "active"}}, "say it in each of the upstreams"),
    ],
)
def test_a_bad_recipe_is_refused_with_the_field_and_the_fix(data: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=r"^recipe\.") as refused:
        Recipe.from_json(data)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (LLAMA, MODEL_NAME),
        (LLAMA | {"model": "/models/big.gguf"}, "big"),
        (LLAMA | {"model": f"{MODEL_NAME}:Q8_0"}, f"{MODEL_NAME}:Q8_0"),
        (VLLM, "m"),
        (VLLM | {"options": {"served-model-name": "mine"}}, "mine"),
        (router(VLLM, LLAMA), "m"),
    ],
)
def test_the_served_name_is_known_before_the_engine_runs(data: dict[str, Any], name: str) -> None:
    assert Recipe.from_json(data).served_name == name


def test_every_option_of_llama_cpp_is_one_of_the_installed_library() -> None:
    for option in LLAMA_OPTIONS:
        if option.name == "task":
            continue
        value: Any = xllamacpp.CommonParams()
        for part in option.name.split("."):
            value = getattr(value, part)
        if option.name in _ENUMS:
            for word in option.choices:
                assert _value(xllamacpp, option.name, word) is not None
        elif option.kind is Kind.SWITCH:
            assert isinstance(value, bool), option.name
        elif option.kind in (Kind.INTEGER, Kind.NUMBER):
            assert isinstance(value, int | float), option.name
            assert not isinstance(value, bool), option.name
        else:
            assert isinstance(value, str), option.name
