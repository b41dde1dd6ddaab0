from typing import Any

import pytest
from django.test import Client

from observatory.catalog.models import Endpoint
from runners.engines.packaged import MODEL_NAME
from tests.pages.test_endpoints import text


def form(**changes: str) -> dict[str, str]:
    return {"name": "mine", "engine": "llama.cpp", "dialect": "openai-chat", "options": "n_parallel=4", **changes}


def test_an_engine_to_start_is_described_line_by_line_and_shown_with_its_command(staff_client: Client) -> None:
    lines = "n_parallel = 4\r\n\r\nspeculative.types=NGRAM_MOD,NGRAM_CACHE\r\ncache_prompt=false"
    sent = form(options=lines, cores="0,1", threads="2", environment="OMP_WAIT_POLICY=active", ready_s="60")
    answer = staff_client.post("/endpoints/start", sent)
    endpoint = Endpoint.objects.get()
    assert answer.url == f"/endpoints/{endpoint.pk}"
    assert endpoint.recipe == {
        "engine": "llama.cpp",
        "options": {"n_parallel": 4, "speculative.types": ["NGRAM_MOD", "NGRAM_CACHE"], "cache_prompt": False},
        "environment": {"OMP_WAIT_POLICY": "active"},
        "threads": 2,
        "cores": [0, 1],
        "ready_s": 60.0,
    }
    assert (endpoint.model, endpoint.url) == (MODEL_NAME, Endpoint.STARTED_URL)
    page = text(staff_client, answer.url)
    assert "started by a worker for each run" in page
    assert "python -m runners engine llama.cpp --option n_parallel=4 --option" in page
    assert Endpoint.STARTED_URL not in page + text(staff_client, "/endpoints")
    assert staff_client.get(f"{answer.url}.json").json()["recipe"] == endpoint.recipe


def test_the_form_comes_back_with_what_was_saved_and_follows_the_recipe(staff_client: Client) -> None:
    staff_client.post("/endpoints/start", form(options="speculative.types=NGRAM_MOD\nn_parallel=4", cores="0,1"))
    endpoint = Endpoint.objects.get()
    page = text(staff_client, f"/endpoints/{endpoint.pk}/edit")
    for shown in ("speculative.types=NGRAM_MOD\nn_parallel=4", 'value="0,1"', "Edit mine", "Options of vllm"):
        assert shown in page
    staff_client.post(f"/endpoints/{endpoint.pk}/edit", form(recipe_model=f"{MODEL_NAME}:Q8_0", options=""))
    endpoint.refresh_from_db()
    assert endpoint.recipe == {"engine": "llama.cpp", "model": f"{MODEL_NAME}:Q8_0"}
    assert endpoint.model == f"{MODEL_NAME}:Q8_0"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"options": "n_slots=4"}, "no such option"),
        ({"options": "n_parallel"}, "write it as name=value"),
        ({"options": "n_parallel=no"}, "is not an integer of at least 1"),
        ({"cores": "one"}, "no list of cores"),
        ({"engine": "vllm", "options": ""}, "say which model vLLM serves"),
        ({"environment": "LD_PRELOAD=x"}, "names begin with OMP_"),
        ({"engine": "command", "options": "", "command": "serve"}, "{port} where the port goes"),
        ({"engine": "command", "options": "", "command": "serve {port}"}, "ENGINE_COMMANDS=1"),
        (
            {"engine": "router", "options": 'upstreams=[{"engine": "command", "command": "serve {port}"}]'},
            "ENGINE_COMMANDS=1",
        ),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_nothing_is_saved(
    staff_client: Client, changes: dict[str, str], words: str
) -> None:
    page = staff_client.post("/endpoints/start", form(**changes)).content.decode()
    assert words in page.replace("&#x27;", "'")
    assert not Endpoint.objects.exists()


def test_a_command_is_taken_where_the_administrator_allows_it(staff_client: Client, settings: Any) -> None:
    settings.ENGINE_COMMANDS = True
    sent = form(engine="command", options="", command="serve --port {port} {model}", recipe_model="m")
    staff_client.post("/endpoints/start", sent)
    assert Endpoint.objects.get().recipe["command"] == "serve --port {port} {model}"


def test_only_staff_may_have_engines_started(user_client: Client) -> None:
    assert user_client.post("/endpoints/start", form()).status_code == 403
    assert not Endpoint.objects.exists()
