"""Ready-made studies for real: the worker starts llama.cpp, measures it, and ends it, arm after arm.

In the smallest form that shows the technique at work; ``make studies`` runs the short form, on the whole model.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from observatory.studies import ready_made, trials
from observatory.studies.models import Trial
from observatory.studies.ready_made import BY_SLUG, READY_MADE
from tests.services.fixtures import sqlite_copy
from tests.services.site import BENCH, Site, database, wait_for
from tests.studies.carried import LIMITED, Carried
from tests.studies.smallest import smallest

WHOLE = os.environ.get("STUDIES") == "1"
SLUGS = [ready.slug for ready in READY_MADE if "vllm" not in ready.engines]
MINUTES_S = 600
#: What so few requests, in so short a time, need not have.
NEED_MANY = ("p90", "p95", "p99")
NEED_TIME = ("wh_per_query", "usd_per_query", "j_per_output_token", "j_per_total_token", "power_w")


@pytest.fixture(scope="module")
def worker(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any) -> Iterator[Site]:
    """One installation for all studies: models are made once, and equal recipes are one deployment."""
    url = sqlite_copy(sqlite_template, tmp_path_factory.mktemp("studies"))
    with django_db_blocker.unblock(), database(url), pytest.MonkeyPatch.context() as environment:
        site = Site(url, RUN_COMMAND=BENCH, RUN_SILENCE_S="60", RUN_LEASE_S="120")
        environment.setenv("CELERY_BROKER_URL", site.valkey.url)
        try:
            with override_settings(**site.settings):
                site.valkey.start()
                site.worker("bench")
                yield site
        finally:
            site.close()


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("slug", SLUGS)
def test_each_arm_is_measured_on_an_engine_with_its_technique_at_work(slug: str) -> None:
    ready = BY_SLUG[slug].shortened() if WHOLE else smallest(slug)
    trial = trials.start(ready_made.make(ready, slug, None, repeats=1), "api")
    wait_for(lambda: Trial.objects.get(pk=trial.pk).ended, MINUTES_S, f"for {slug}")
    trial.refresh_from_db()
    found = Carried(trial)
    turns = [slot.run for slot in trial.slots.select_related("run")]
    assert [(run.status, "" if run.valid else run.reason_code) for run in turns if run] == [
        ("finished", "" if run and run.valid else LIMITED) for run in turns
    ]
    assert list(found.runs) == [arm.name for arm in ready.arms]
    answered(found, ready.quality.get("questions", 0))
    judged(found)
    AT_WORK[slug](found)


def judged(found: Carried) -> None:
    """Each measure of each arm has a value, and a prediction where there is theory. A limited run is left out."""
    limited = {name for name, run in found.runs.items() if not run.valid}
    baseline, *_ = found.runs
    assert {missing.arm for missing in found.result.missing} == limited
    decides = found.result.rows[0]
    others = [row for row in found.result.rows[1:] if row.measure.metric.key not in NEED_TIME]
    for row in (decides, *(row for row in others if row.measure.statistic not in NEED_MANY)):
        for name, cell in zip(found.runs, row.cells, strict=True):
            assert (cell.mean is None) == (name in limited), (row.measure.label, name)
    if found.trial.study.prediction and not limited:
        assert all(cell.predicted and cell.predicted.value for cell in decides.cells), decides
    assert (found.trial.status == "finished") == (baseline not in limited and len(limited) < len(found.runs) - 1)


def answered(found: Carried, questions: int) -> None:
    """Every arm was asked, and its answers stand against the baseline's."""
    quality = found.result.quality
    assert quality.asked == bool(questions)
    if questions:
        assert [one.found.n if one.found else None for one in quality.arms] == [questions] * len(quality.arms)
        assert all(one.agreement is not None for one in quality.arms[1:])
        assert quality.arms[0].in_trial


def prompts_grow(found: Carried) -> None:
    short, long = found.measured("ttft_ms").values()
    assert short < long
    short, long = found.measured("input_tokens").values()
    assert short == pytest.approx(128, abs=8)
    assert long == pytest.approx(512, abs=8)


def requests_share_a_batch(found: Carried) -> None:
    alone, together = found.measured("achieved_concurrency").values()
    assert alone <= 1.01 < 2 < together


def newcomers_wait_for_the_batch(found: Carried) -> None:
    assert option(found, "cont_batching") == [False, True]


def prefixes_are_cached(found: Carried) -> None:
    off, on = found.measured("cached_share").values()
    assert off < 5
    assert on > 50


def prompts_are_read_in_chunks(found: Carried) -> None:
    assert option(found, "n_batch") == [2048, 128]


def weights_are_small(found: Carried) -> None:
    assert [engine["model_files"][0].count(form) for engine, form in made(found, "-F16-", "-Q4_0-")] == [1, 1]


def the_cache_is_small(found: Carried) -> None:
    assert option(found, "cache_type_k") == option(found, "cache_type_v") == ["F16", "Q4_0"]
    assert all('"cache_type_k": "' in engine["command"] for engine in found.engines().values())


def drafts_are_accepted(found: Carried) -> None:
    drafted, accepted = found.counted("drafted_tokens"), found.counted("accepted_tokens")
    assert drafted["plain"] == 0
    assert drafted["n-gram"] >= accepted["n-gram"] > 0


def layers_are_left_out(found: Carried) -> None:
    whole, small = found.measured("tpot_ms", "p50").values()
    assert small < whole
    assert [engine["model_files"][0].count(layers) for engine, layers in made(found, "Q8_0-30", "Q8_0-10")] == [1, 1]


def experts_are_made(found: Carried) -> None:
    names = ("-F16-", "-experts-8", "-width-4")
    assert [engine["model_files"][0].count(name) for engine, name in made(found, *names)] == [1, 1, 1]


def some_are_sent_on(found: Carried) -> None:
    """Each is put to the small model first, and to the large one where it was unsure."""
    name = "confidence"
    sent_on, routed = found.counted("sent_on_requests")[name], found.counted("routed_requests")[name]
    small, large = by_replica(found, name)
    assert routed == small == planned(found, name)
    assert large == sent_on
    assert 0 <= sent_on <= routed


def replicas_keep_their_prefixes(found: Carried) -> None:
    in_turn, by_prefix = (by_replica(found, name) for name in ("round robin", "prefix affinity"))
    assert abs(in_turn[0] - in_turn[1]) <= 1
    assert sum(in_turn) == sum(by_prefix) == planned(found, "round robin")
    shares = found.measured("cached_share")
    assert shares["round robin"] < shares["prefix affinity"]


def forms_differ(found: Carried) -> None:
    assert [engine["model_files"][0].count(form) for engine, form in made(found, "-F16-", "-Q4_0-")] == [1, 1]
    assert all(value > 0 for value in found.measured("j_per_output_token").values())
    assert len(found.measured("j_per_output_token")) == 2


def reasoning_comes_first(found: Carried) -> None:
    hidden, shown = found.measured("reasoning_tokens"), found.measured("output_tokens")
    assert hidden["64 reasoning tokens"] > 32
    assert not hidden.get("no reasoning")
    assert shown["64 reasoning tokens"] > shown["no reasoning"]
    first = found.measured("first_answer_ms")
    assert first["64 reasoning tokens"] > first["no reasoning"]


AT_WORK: Mapping[str, Callable[[Carried], None]] = {
    "two-phases": prompts_grow,
    "batching": requests_share_a_batch,
    "continuous-batching": newcomers_wait_for_the_batch,
    "prefix-caching": prefixes_are_cached,
    "prefill-interference": prompts_are_read_in_chunks,
    "weight-quantization": weights_are_small,
    "cache-quantization": the_cache_is_small,
    "speculative-decoding": drafts_are_accepted,
    "smaller-model": layers_are_left_out,
    "mixture-of-experts": experts_are_made,
    "routing": some_are_sent_on,
    "load-balancing": replicas_keep_their_prefixes,
    "on-device": forms_differ,
    "reasoning-length": reasoning_comes_first,
}


def option(found: Carried, name: str) -> list[Any]:
    """What the engines were started with, arm after arm."""
    return [engine["recipe"]["options"][name] for engine in found.engines().values()]


def made(found: Carried, *names: str) -> list[tuple[Mapping[str, Any], str]]:
    """The engine of each arm, with what is to be in the name of its model file."""
    return list(zip(found.engines().values(), names, strict=True))


def by_replica(found: Carried, arm: str) -> list[float]:
    """Requests that the router put to each of its two engines."""
    return [found.counted("upstream_requests", f'upstream="{index}"')[arm] for index in range(2)]


def planned(found: Carried, arm: str) -> int:
    stages = (found.runs[arm].summary or {})["stages"]
    return int(stages[0]["planned"])
