"""The server tab: a run against what its hardware allows."""

from typing import Any

import pytest
from django.test import Client

from observatory.catalog.models import Accelerator
from observatory.runs.models import Run
from tests import factories
from tests.simulation import Plan


def made_on(slug: str, plan: Plan, model: str = "meta-llama/Llama-3.1-8B-Instruct") -> Run:
    factories.seeded()
    benchmark = factories.benchmark(model=model, plan=plan)
    benchmark.deployment.pools.create(accelerator=Accelerator.objects.get(slug=slug))
    benchmark.deployment.precision = "bf16"
    benchmark.deployment.save()
    return factories.finished_run(benchmark, plan)


def tab(client: Client, run: Run) -> str:
    answer = client.get(f"/runs/{run.pk}?tab=server")
    assert answer.status_code == 200
    return answer.content.decode()


def test_each_stage_is_set_against_its_hardware(user_client: Client) -> None:
    found = tab(user_client, made_on("h100-sxm", Plan(levels=(1, 4), tpot_ms=20.0)))
    assert "MBU" in found
    assert found.count(">Roofline<") == 2
    assert "beats" not in found.lower()
    assert "parameters_b=8.03" in found


def test_a_run_that_beats_physics_is_flagged(user_client: Client) -> None:
    found = tab(user_client, made_on("t4", Plan(levels=(1,), tpot_ms=5.0)))
    assert "Faster than the hardware allows" in found


def test_the_address_of_a_stage_opens_the_calculator_with_its_numbers(user_client: Client) -> None:
    run = made_on("h100-sxm", Plan(levels=(1,), tpot_ms=20.0))
    answer: Any = user_client.get(f"/runs/{run.pk}?tab=server")
    (item,) = answer.context["rooflines"]
    told = user_client.get(item.address.replace("roofline?", "roofline.json?")).json()
    assert told["outputs"]["mbu"] == pytest.approx(item.outputs.mbu)


def test_without_an_accelerator_the_page_says_what_is_missing(user_client: Client) -> None:
    found = tab(user_client, factories.finished_run(plan=Plan(levels=(1,))))
    assert "an accelerator with a known bandwidth" in found
    assert "Give it by hand" in found


def test_a_model_of_unknown_shape_is_not_guessed(user_client: Client) -> None:
    found = tab(user_client, made_on("h100-sxm", Plan(levels=(1,)), model="my-model"))
    assert "the shape of its model" in found
