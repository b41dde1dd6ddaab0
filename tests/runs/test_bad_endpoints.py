"""Endpoints that misbehave, measured by the real instrument through a real worker: what the page and the API say."""

import sys
from collections.abc import Callable

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Endpoint
from observatory.runs import dispatch, states
from observatory.runs.models import Run
from tests.questions import ask
from tests.runs.conftest import told
from tests.services.bad_streams import STREAMS
from tests.services.misbehaving import Script, Wire, good, hang_mid_stream, serving, silent
from tests.services.site import Site, wait_for

Make = Callable[..., Benchmark]
SHORT = {"connect_s": 2.0, "first_byte_s": 0.4, "idle_s": 0.4, "total_s": 3.0}


def hangs_after(answers: int) -> Script:
    """Answers well so often; from then on it hangs amid the stream."""
    answered: list[int] = []

    def script(wire: Wire) -> None:
        answered.append(1)
        (good if len(answered) <= answers else hang_mid_stream)(wire)

    return script


SCRIPTS = {
    "silent": silent,
    "hangs": hang_mid_stream,
    "garbled": STREAMS["non_json_data"].script,
    "hangs-later": hangs_after(6),
}


def start(make: Make, url: str, model: str) -> Run:
    asked = ask(make(model, name=model), levels=[1], requests=8, warmup_s=0, power_source="none")
    Endpoint.objects.filter(pk=asked.deployment.endpoint_id).update(url=url)
    run = states.queue(Benchmark.objects.get(pk=asked.pk), Run.Trigger.PAGE)
    run.spec["timeouts"] |= SHORT
    run.save(update_fields=["spec"])
    assert dispatch.publish(run)
    return run


def test_what_an_endpoint_does_wrong_is_told_on_page_and_api(site: Site, benchmark: Make) -> None:
    site.variables["RUN_COMMAND"] = f"{sys.executable} -m runners bench"
    site.worker("bench")
    with serving(SCRIPTS) as server:
        runs = {model: start(benchmark, server.url, model) for model in SCRIPTS}
        for run in runs.values():
            wait_for(lambda run=run: Run.objects.get(pk=run.pk).ended, 60)
            run.refresh_from_db()
    assert {model: (run.status, run.reason_code) for model, run in runs.items()} == {
        "silent": ("failed", "timeout_first_byte"),
        "hangs": ("failed", "timeout_idle"),
        "garbled": ("failed", "parse_error"),
        "hangs-later": ("finished", "stage_failed"),
    }
    for model, run in runs.items():
        for said in told(run):
            assert run.reason.rstrip(".").lower() in said.lower(), model
    failures = runs["hangs-later"].stages.get().failures
    assert set(failures) == {"timeout_idle"}
    for said in told(runs["hangs-later"]):
        assert failures["timeout_idle"]["example"] in said
