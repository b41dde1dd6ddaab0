"""Ready-made studies on a real vLLM of this machine's CPU, in short: what theory says of each must hold in direction.

``make studies`` runs them; they need ``make install-vllm`` and about two minutes each.
"""

import json
import os
import sys
import urllib.request
from collections import Counter
from collections.abc import Mapping

import pyarrow.parquet as pq
import pytest

from observatory.runs.models import Run
from observatory.studies import ready_made, trials, verdict
from observatory.studies.findings import Result
from observatory.studies.measured import Turn
from observatory.studies.models import Trial
from runners.engines import vllm
from runners.engines.launch import launch
from runners.engines.packaged import MODEL_NAME
from runners.engines.recipe import Recipe
from tests.services.site import Site, wait_for

MINUTES_S = 900
SENTENCE = "The capital of France is Paris, and the largest planet of the solar system is Jupiter."

pytestmark = [
    pytest.mark.skipif(os.environ.get("STUDIES") != "1", reason="takes minutes: make studies"),
    pytest.mark.skipif(not vllm.python().exists(), reason="needs vLLM: make install-vllm"),
]


def carried_out(site: Site, slug: str) -> Result:
    """Its short form, once: every arm on an engine of its own."""
    site.variables["RUN_COMMAND"] = f"{sys.executable} -m runners bench"
    site.worker("bench")
    trial = trials.start(ready_made.make(ready_made.BY_SLUG[slug].shortened(), slug, None, repeats=1), "api")
    wait_for(lambda: Trial.objects.get(pk=trial.pk).ended, MINUTES_S, f"for {slug}")
    runs = [slot.run for slot in trial.slots.select_related("run") if slot.run]
    assert [(run.status, run.reason) for run in runs if run.status != Run.Status.FINISHED] == []
    found = verdict.of(trial)
    assert found.missing == ()
    return found


def measured(result: Result, metric: str, statistic: str = "") -> Mapping[str, float]:
    """By arm."""
    rows = [row for row in result.rows if row.measure.metric.key == metric]
    row = next(row for row in rows if statistic in ("", row.measure.statistic))
    pairs = zip(result.arms, row.cells, strict=True)
    return {found.arm.name: cell.mean.value for found, cell in pairs if cell.mean is not None}


def told(result: Result, name: str) -> Mapping[str, float]:
    """What the server counted, by arm."""
    return {found.arm.name: found.means()[name, "mean"] for found in result.arms}


def test_a_small_cache_puts_requests_back_and_computes_fewer_at_once(site: Site) -> None:
    found = carried_out(site, "paged-cache")
    much, little = "room for 2560 tokens", "room for 512 tokens"
    put_back, running = told(found, "preemptions"), told(found, "requests_running")
    assert put_back[much] == 0 < put_back[little]
    assert running[little] < 0.6 * running[much]
    speed = measured(found, "output_tokens_per_s")
    assert speed[little] < 0.8 * speed[much]
    assert any("put back" in note for note in found.notes)


def test_a_second_core_is_bound_as_the_arm_says_and_what_it_brings_stands_beside_theory(site: Site) -> None:
    found = carried_out(site, "scaling")
    commands = {turn.slot.arm.name: turn.slot.run.summary["environment"]["engine"] for turn in found.turns}  # type: ignore[union-attr,index]
    bound = {name: engine["environment"]["VLLM_CPU_OMP_THREADS_BIND"] for name, engine in commands.items()}
    assert bound == {"one core": "0", "two threads": "0,1", "tensor parallel": "0|1", "two replicas": "0|1"}
    # What a second core brings where the load generator needs it too is for reading, not for asserting.
    assert list(measured(found, "output_tokens_per_s")) == list(bound)
    predicted = [cell.predicted.value for cell in found.rows[0].cells if cell.predicted and cell.predicted.value]
    alone, threads, tensor, replicas = predicted
    assert threads == pytest.approx(2 * alone)
    assert threads > tensor > replicas > alone


def test_quantized_checkpoints_are_measured_beside_what_their_bytes_would_give(site: Site) -> None:
    found = carried_out(site, "weight-quantization-vllm")
    forms = ["BF16", "W8A8", "GPTQ", "AWQ"]
    assert list(measured(found, "tpot_ms")) == list(measured(found, "ttft_ms")) == forms
    # Which of them is faster is up to the kernels that this CPU has; theory knows bytes only.
    predicted = [cell.predicted.value for cell in found.rows[0].cells if cell.predicted and cell.predicted.value]
    assert len(predicted) == len(forms)
    assert predicted[0] > predicted[1] > predicted[2] == predicted[3]


def test_heads_that_nobody_trained_cost_their_share_and_the_server_counts_what_they_guessed(site: Site) -> None:
    found = carried_out(site, "speculative-decoding-vllm")
    drafted, accepted = (
        {turn.slot.arm.name: counted(turn, name) for turn in found.turns if turn.slot.arm.name != "plain"}
        for name in ("drafted_tokens", "accepted_tokens")
    )
    for name, count in drafted.items():
        assert 0 <= accepted[name] < 0.6 * count
    tpot_ms = measured(found, "tpot_ms")
    assert tpot_ms["EAGLE layer"] > tpot_ms["plain"]


def test_adapters_are_asked_for_by_request_and_cost_more_than_their_bytes(site: Site) -> None:
    found = carried_out(site, "adapters")
    shares = {turn.slot.arm.name: named(turn) for turn in found.turns}
    assert set(shares["without adapters"]) == {f"{MODEL_NAME}:HF"}
    assert set(shares["one adapter"]) == {"adapter-1"}
    assert set(shares["four adapters"]) == {f"adapter-{number}" for number in range(1, 5)}
    predicted = [cell.predicted.value for cell in found.rows[0].cells if cell.predicted and cell.predicted.value]
    assert [value / predicted[0] for value in predicted] == pytest.approx([1, 1.02, 1.07], abs=0.02)
    tpot_ms = measured(found, "tpot_ms")
    assert tpot_ms["four adapters"] > tpot_ms["without adapters"]


def named(turn: Turn) -> Counter[str]:
    """How many requests named each model or adapter."""
    assert turn.slot.run is not None
    with turn.slot.run.requests_file.open() as stored:
        return Counter(pq.read_table(stored, columns=["model"])["model"].to_pylist())


def test_each_adapter_answers_in_its_own_way_on_one_engine() -> None:
    modules = [f"{name}={MODEL_NAME}:LORA:seed={seed}" for name, seed in (("a", 1), ("again", 1), ("b", 2))]
    options = {"enforce-eager": True, "max-model-len": 256, "max-num-seqs": 4, "enable-lora": True, "max-loras": 3}
    recipe = {"engine": "vllm", "model": f"{MODEL_NAME}:HF", "options": {**options, "lora-modules": modules}}
    with launch(Recipe.from_json(recipe)) as engine:
        said = {name: logprob(engine.url, name) for name in (engine.model, "a", "again", "b")}
    assert said["a"] == pytest.approx(said["again"], abs=1e-3)
    assert len({round(value, 3) for value in said.values()}) == 3


def logprob(url: str, model: str) -> float:
    """Mean over the tokens of a sentence but the first."""
    asked = {"model": model, "prompt": SENTENCE, "max_tokens": 1, "echo": True, "logprobs": 1}
    body = json.dumps(asked).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        logprobs = json.load(response)["choices"][0]["logprobs"]["token_logprobs"][1:-1]
    return float(sum(logprobs) / len(logprobs))


def surprise(form: str) -> float:
    """Mean of -ln p over the tokens of a sentence but the first, by vLLM with the checkpoint of this form."""
    options = {"enforce-eager": True, "max-model-len": 256, "max-num-seqs": 1}
    with launch(Recipe.from_json({"engine": "vllm", "model": f"{MODEL_NAME}:{form}", "options": options})) as engine:
        return -logprob(engine.url, engine.model)


def test_vllm_unpacks_the_layouts_of_quantized_checkpoints_as_they_were_packed() -> None:
    found = {form: surprise(form) for form in ("HF", "W8A8", "GPTQ", "AWQ")}
    assert found["W8A8"] == pytest.approx(found["HF"], abs=0.3)
    # The same 4-bit numbers in two layouts: rounding costs something, a wrong order of them everything.
    assert found["GPTQ"] == pytest.approx(found["AWQ"], abs=0.1)
    assert found["GPTQ"] < found["HF"] + 2 < 7, found


def test_an_engine_that_answers_takes_the_prompt_from_the_one_that_read_it(site: Site) -> None:
    found = carried_out(site, "disaggregation")
    cached = {turn.slot.arm.name: counted(turn, "cached_tokens") for turn in found.turns}
    assert cached["chunks of 256"] == 0
    asked = sum(counted(turn, "prompt_tokens") for turn in found.turns if turn.slot.arm.name == "disaggregated")
    # Both count the prompt; the second takes all of it but its last block, which is a tenth of a short one. What is
    # counted lies between two looks at the server: a prompt at their edge can be in one count and not in the other.
    assert cached["disaggregated"] > 0.75 * asked / 2
    gaps = measured(found, "event_gap_ms", "p90")
    assert gaps["disaggregated"] < gaps["chunks of 256"]


def counted(turn: Turn, counter: str) -> float:
    assert turn.slot.run is not None
    assert turn.slot.run.summary is not None
    return float(turn.slot.run.summary["stages"][0]["server"]["counters"][counter])
