"""A specification goes out as JSON and comes back the same; what cannot be run is refused by name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.sources import (
    Agents,
    Conversations,
    Length,
    Prefixes,
    PromptFile,
    Shape,
    ShareGpt,
    Synthetic,
    Trace,
    TraceForm,
)
from runners.spec import (
    Account,
    Arrivals,
    Goal,
    Images,
    Load,
    ModelShare,
    RunSpec,
    Search,
    Slo,
    SpecError,
    Target,
    Workload,
)

SPEC = RunSpec(
    Target(
        "https://example.com/v1",
        "m",
        api_key_env="KEY",
        extra_body={"top_k": 1, "x": {"y": [None, 0.5]}},
        extra_headers={"X-Team": "llm"},
    ),
    workload=Workload(64, 32, 7, images=Images(1, 64, 32), models=(ModelShare("a", 3), ModelShare("b"))),
    load=Load(Arrivals.POISSON, (0.5, 2.0), duration_s=30.0, warmup_s=5.0),
    slo=Slo(ttft_ms=500.0),
)


def test_json_out_and_in_gives_the_same_specification():
    assert RunSpec.from_json(json.loads(json.dumps(SPEC.to_json()))) == SPEC


SOURCES = (
    Synthetic(), PromptFile("p"), ShareGpt("s"), Prefixes(3, 20, 0.5), Agents(Length(Shape.UNIFORM, low=2, high=4)),
    Conversations(3, 0.5, 1.0, 2.0, 40, "c"), Trace("t", TraceForm.AZURE),
)  # fmt: skip


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.kind)
def test_every_kind_of_workload_goes_out_and_comes_back(source):
    lengths = Length(Shape.LOGNORMAL, mean=64.0, sd=8.0, low=32), Length(Shape.FILE, file="lengths")
    workload = Workload(*lengths, source=source)
    spec = RunSpec(Target("http://h"), workload=workload, load=Load(requests=5))
    assert RunSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_a_search_a_ramp_and_repeats_go_out_and_come_back():
    search = Load(levels=(1.0, 64.0), requests=60, search=Search(Goal.SLO, 0.9, 0.05, 20))
    ramp = Load(Arrivals.GAMMA, (8.0,), duration_s=60.0, cv=2.0, ramp_from=1.0, repeats=3, cooldown_s=4.0)
    for load in (search, ramp):
        spec = RunSpec(Target("http://h"), load=load, slo=Slo(e2e_ms=9.0))
        assert RunSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (Load(requests=9, search=Search(Goal.SLO)), "which SLO"),
        (Load(levels=(8.0, 4.0), requests=9, search=Search(Goal.SATURATION)), "where it starts"),
        (Load(levels=(1.0, 2.0, 3.0), requests=9, search=Search(Goal.SATURATION)), "where it starts"),
        (Load(requests=9, repeats=2, search=Search(Goal.SATURATION)), "no repeats"),
        (Load(levels=(4.0,), requests=9, ramp_from=1.0), r"needs load\.duration_s"),
        (Load(levels=(4.0,), duration_s=9.0, ramp_from=4.0), "below every level"),
    ],
)
def test_what_does_not_go_together_is_refused(load, words):
    with pytest.raises(SpecError, match=words):
        RunSpec(Target("http://h"), load=load)


def test_a_trace_that_is_replayed_needs_no_other_end():
    replay = Load(Arrivals.REPLAY, (1.0, 2.0))
    spec = RunSpec(Target("http://h"), workload=Workload(source=Trace("t", TraceForm.BURSTGPT)), load=replay)
    assert spec.load.requests is None


def changed(path: str, value: object) -> dict[str, object]:
    data = SPEC.to_json()
    *outer, last = path.split(".")
    part = data
    for name in outer:
        part = part[name]
    part[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", 99),
        ("target.url", "ftp://x"),
        ("target.dialect", "telnet"),
        ("target.extra_body", [1]),
        ("load.levels", [float("inf")]),
        ("load.levels", [20_000.0]),
        ("load.duration_s", 86_400.0 * 0.99 * 1e9),
        ("load.drain_s", float("nan")),
        ("load.max_in_flight", 0),
        ("load.run_s", 0),
        ("load.requests", 1_000_001),
        ("timeouts.total_s", float("inf")),
        ("power.idle_s", float("nan")),
        ("target.extra_body", {"n": 2}),
        ("target.extra_body", {"stream": False}),
        ("target.extra_body", {"echo": True}),
        ("target.extra_body", {"x": {"y": [float("nan")]}}),
        ("target.extra_body", {"x": 2**80}),
        ("target.extra_headers", {"X": 5}),
        ("target.extra_headers", {"X Y": "v"}),
        ("target.extra_headers", {"Content-Length": "5"}),
        ("target.extra_headers", {"X-Note": "a\r\nHost: b"}),
        ("target.api_key_header", "a b"),
        ("target.api_key_header", "Content-Type"),
        ("target.ca_file", 5),
        ("target.client_key_file", "key.pem"),
        ("target.proxy", "socks5://h:1"),
        ("load.levels", []),
        ("load.levels", [0]),
        ("load.levels", "1,2"),
        ("load.levels", [float("nan")]),
        ("load.requests", 0),
        ("load.duration_s", -1),
        ("load.duration_s", True),
        ("load.warmup_s", "5"),
        ("load.surprise", 1),
        ("workload.input_tokens", 0),
        ("workload.input_tokens", 1.5),
        ("workload.output_tokens", None),
        ("workload.stream", "yes"),
        ("workload.choices", 0),
        ("workload.choices", 1000),
        ("workload.images", {"count": -1}),
        ("workload.images", {"count": 1, "width_px": 0}),
        ("workload.images", {"count": 1, "height_px": 100_000}),
        ("workload.models", ["a"]),
        ("workload.models", [{"name": ""}]),
        ("workload.models", [{"name": "a", "weight": 0}]),
        ("workload.models", [{"name": "a", "weight": float("inf")}]),
        ("workload.input_tokens", {"shape": "uniform", "low": 5}),
        ("workload.input_tokens", {"shape": "uniform", "low": 5, "high": 9, "step": 0}),
        ("workload.input_tokens", {"shape": "normal", "mean": 5, "sd": 1, "step": 2}),
        ("workload.input_tokens", {"shape": "bell"}),
        ("workload.input_tokens", {"shape": "normal", "mean": 5, "sd": "wide"}),
        ("workload.output_tokens", {"shape": "file"}),
        ("workload.input_sweep", [0]),
        ("workload.input_sweep", [64, 128]),  # at two loads
        ("workload.source", {"kind": "poetry"}),
        ("workload.source", {}),
        ("workload.source", "prefixes"),
        ("workload.source", {"kind": "prompts", "file": ""}),
        ("workload.source", {"kind": "prompts"}),
        ("workload.source", {"kind": "prefixes", "prefix_tokens": 64}),  # as long as the prompt
        ("workload.source", {"kind": "prefixes", "prefix_tokens": 32, "zipf": -1}),
        ("workload.source", {"kind": "conversations", "think_s": -1}),
        ("workload.source", {"kind": "conversations", "turns": 0}),
        ("workload.source", {"kind": "agents", "result_tokens": 0}),
        ("workload.source", {"kind": "agents", "groups": 3}),
        ("workload.source", {"kind": "trace", "file": "t", "form": "parquet"}),
        ("load.arrivals", "replay"),  # without a trace
        ("load.cv", 0),
        ("load.cooldown_s", -1),
        ("load.repeats", 0),
        ("load.repeats", 31),
        ("load.ramp_from", 5),
        ("load.ramp_from", 0),
        ("load.search", {"goal": "fame"}),
        ("load.search", {"goal": "slo", "share": 1.0}),
        ("load.search", {"goal": "slo", "max_stages": 1}),
        ("load.search", {"goal": "saturation", "tolerance": 0}),
        ("slo.ttft_ms", 0),
        ("timeouts.idle_s", 0),
        ("account.pue", 0.9),
        ("account.usd_per_hour", -1),
        ("target", None),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_name_of_the_field(path, value):
    with pytest.raises(SpecError) as error:
        RunSpec.from_json(changed(path, value))
    assert path.split(".")[0] in str(error.value)


@pytest.mark.parametrize(
    "name", ["Authorization", "x-api-key", "Cookie", "X-Auth-Token", "Ocp-Apim-Subscription-Key", "X_SECRET", "session"]
)
def test_a_header_named_like_a_secret_is_refused_with_where_it_belongs_and_never_shown(name):
    with pytest.raises(SpecError, match=r"target\.api_key_env.*target\.api_key_header") as error:
        RunSpec.from_json(changed("target.extra_headers", {name: "canary-1"}))
    assert "canary-1" not in str(error.value)


def test_certificates_for_an_address_without_tls_are_refused():
    with pytest.raises(SpecError, match=r"target\.ca_file: only https"):
        RunSpec(Target("http://x", ca_file="ca.pem"), load=Load(requests=1))


def test_a_concurrency_is_a_whole_number_and_a_rate_need_not_be():
    with pytest.raises(SpecError, match="whole number"):
        RunSpec(Target("http://x"), load=Load(levels=(1.5,), requests=1))
    assert RunSpec(Target("http://x"), load=Load(Arrivals.CONSTANT, (1.5,), requests=1)).load.levels == (1.5,)


def test_a_stage_must_have_an_end():
    with pytest.raises(SpecError, match="when a stage ends"):
        RunSpec(Target("http://x"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["url", "model", "levels", "x"]), inner)
    ),
    max_leaves=8,
)


@given(st.sampled_from(["target", "load", "workload", "slo", "power", "account", "timeouts", "salt", "version"]), JSON)
def test_arbitrary_json_is_either_a_specification_or_a_clear_error(name, value):
    try:
        spec = RunSpec.from_json(SPEC.to_json() | {name: value})
    except SpecError:
        return
    else:
        assert RunSpec.from_json(spec.to_json()) == spec


def test_a_schedule_of_more_sending_times_than_fit_into_memory_is_refused():
    RunSpec(Target("http://x"), load=Load(Arrivals.POISSON, (1_000.0,), duration_s=4_000.0, warmup_s=1_000.0))
    with pytest.raises(SpecError, match=r"load\.duration_s.*5000000 requests"):
        RunSpec(Target("http://x"), load=Load(Arrivals.POISSON, (1_000.0,), duration_s=4_001.0, warmup_s=1_000.0))


@pytest.mark.parametrize(("pue", "low", "high"), [(None, 1.1, 1.3), (1.2, 1.1, None), (1.2, 1.3, 1.4), (1.2, 0.9, 1.4)])
def test_a_range_of_the_pue_that_does_not_hold_it_is_refused(pue, low, high):
    with pytest.raises(SpecError, match=r"account\.pue_low: give both bounds"):
        RunSpec(Target("http://h"), load=Load(requests=5), account=Account(pue=pue, pue_low=low, pue_high=high))
