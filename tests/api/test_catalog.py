from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.db import connection
from django.test import Client

from observatory.catalog.models import Deployment, Endpoint
from tests.api.conftest import Caller
from tests.factories import finished_run, seeded
from tests.services.tls import Authority

pytestmark = pytest.mark.django_db

KEY = "sk-canary-0123456789-WXYZ"
ENDPOINT = {"name": "gpu-1", "url": "http://gpu-1:8000/v1/", "model": "llama", "api_key": KEY}


def problems(answer: Any) -> dict[str, str]:
    assert answer.status_code in (409, 422), answer.content
    assert answer.json()["fix"]
    return {fault["field"]: fault["problem"] for fault in answer.json()["fields"]}


def test_an_endpoint_is_made_read_changed_and_deleted(as_staff: Caller) -> None:
    made = as_staff.post("/endpoints", ENDPOINT)
    assert made.status_code == 201
    key = made.json()["id"]
    assert made.json()["url"] == "http://gpu-1:8000/v1"
    assert Endpoint.objects.get().created_by.username == "stan"  # type: ignore[union-attr]
    assert as_staff.get(f"/endpoints/{key}").json() == made.json()
    assert as_staff.patch(f"/endpoints/{key}", {"model": "qwen"}).json() == {**made.json(), "model": "qwen"}
    assert as_staff.delete(f"/endpoints/{key}").status_code == 204
    assert as_staff.get(f"/endpoints/{key}").status_code == 404


def test_an_endpoint_that_a_worker_starts_is_made_from_a_recipe(as_staff: Caller) -> None:
    recipe = {"engine": "llama.cpp", "options": {"n_parallel": 4}, "threads": 1}
    made = as_staff.post("/endpoints", {"name": "mine", "recipe": recipe})
    assert made.status_code == 201, made.content
    assert (made.json()["recipe"], made.json()["model"]) == (recipe, "SmolLM2-135M-Instruct")
    address = f"/endpoints/{made.json()['id']}"
    assert "no such option" in problems(as_staff.patch(address, {"recipe": {**recipe, "options": {"n": 1}}}))["recipe"]
    assert "Leave it empty" in problems(as_staff.patch(address, {"url": "http://gpu-1:8000"}))["url"]
    assert (
        "ENGINE_COMMANDS"
        in problems(as_staff.patch(address, {"recipe": {"engine": "command", "command": "x {port}"}}))["recipe"]
    )
    own = as_staff.patch(address, {"url": "http://gpu-1:8000", "recipe": {}})
    assert (own.json()["url"], own.json()["recipe"]) == ("http://gpu-1:8000", {})
    assert "Start the URL with" in problems(as_staff.post("/endpoints", {"name": "none", "model": "m"}))["url"]


def test_a_key_goes_in_and_never_comes_out(as_staff: Caller) -> None:
    made = as_staff.post("/endpoints", ENDPOINT)
    key = made.json()["id"]
    answers = [
        made,
        as_staff.get("/endpoints"),
        as_staff.get(f"/endpoints/{key}"),
        as_staff.patch(f"/endpoints/{key}", {}),
    ]
    assert not [answer for answer in answers if KEY.encode() in answer.content]
    assert made.json()["api_key_hint"] == "…WXYZ"
    assert Endpoint.objects.get().api_key == KEY


def test_a_key_stays_when_left_out_and_goes_when_empty(as_staff: Caller) -> None:
    key = as_staff.post("/endpoints", ENDPOINT).json()["id"]
    as_staff.patch(f"/endpoints/{key}", {"name": "other"})
    assert Endpoint.objects.get().api_key == KEY
    assert as_staff.patch(f"/endpoints/{key}", {"api_key": ""}).json()["api_key_hint"] == ""
    assert Endpoint.objects.get().api_key == ""


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"url": "http://key:secret@host/v1"}, "url", "API key field"),
        ({"url": "http://169.254.169.254/"}, "url", "never contacted"),
        ({"url": "ftp://host"}, "url", "http:// or https://"),
        ({"dialect": "morse"}, "dialect", "openai-chat"),
        ({"name": ""}, "name", "at least 1"),
        ({"name": "a\x00b"}, "name", "pattern"),
        ({"name": 5}, "name", "string"),
        ({"modle": "m"}, "modle", "not permitted"),
        ({"model": None}, "model", "string"),
    ],
)
def test_a_bad_endpoint_is_refused_with_field_and_fix(
    as_staff: Caller, change: dict[str, Any], field: str, words: str
) -> None:
    answer = as_staff.post("/endpoints", {**ENDPOINT, **change})
    assert words in problems(answer)[field]
    assert b"secret" not in answer.content
    assert not Endpoint.objects.exists()


@pytest.mark.parametrize("body", ["{", "[]", '"x"', "nope", "", '{"name": NaN}', b"\xff\xfe"])
def test_a_body_that_is_no_good_json_is_refused(as_staff: Caller, body: str) -> None:
    answer = Client().generic(
        "POST", "/api/v1/endpoints", body, "application/json", headers={"Authorization": f"Bearer {as_staff.token}"}
    )
    assert answer.status_code in (400, 422)
    assert answer.json()["fix"]


def test_keys_that_can_no_longer_be_read_are_an_error_that_names_the_setting(as_staff: Caller, settings: Any) -> None:
    as_staff.post("/endpoints", ENDPOINT)
    settings.FIELD_KEYS = [Fernet.generate_key().decode()]
    answer = as_staff.get("/endpoints")
    assert (answer.status_code, answer.json()["code"]) == (500, "misconfigured")
    assert "FIELD_KEYS" in answer.json()["detail"]


def test_a_fault_of_ours_tells_the_caller_nothing_of_the_inside(as_user: Caller) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("sk-inside")

    with connection.execute_wrapper(fail):
        answer = as_user.get("/sites")
    assert (answer.status_code, answer.json()["code"]) == (500, "our_fault")
    assert b"sk-inside" not in answer.content


def test_a_taken_name_is_a_conflict(as_staff: Caller) -> None:
    as_staff.post("/endpoints", ENDPOINT)
    answer = as_staff.post("/endpoints", ENDPOINT)
    assert (answer.status_code, answer.json()["code"]) == (409, "name_taken")


def test_what_is_in_use_cannot_be_deleted_and_the_answer_names_what_uses_it(as_staff: Caller) -> None:
    run = finished_run()
    answer = as_staff.delete(f"/endpoints/{run.endpoint_id}")
    assert (answer.status_code, answer.json()["code"]) == (409, "in_use")
    assert "deployments" in answer.json()["detail"]
    assert Endpoint.objects.exists()


def test_a_deployment_keeps_its_price_to_the_digit(as_staff: Caller) -> None:
    seeded()
    endpoint = as_staff.post("/endpoints", ENDPOINT).json()["id"]
    accelerators = as_staff.get("/accelerators?limit=50").json()["items"]
    h100 = next(item for item in accelerators if item["slug"] == "h100-sxm")
    body = {"name": "two", "endpoint_id": endpoint, "pools": [{"accelerator_id": h100["id"], "count": 2}]}
    made = as_staff.post("/deployments", {**body, "usd_per_hour": 4.58}).json()
    assert (made["hardware"], made["usd_per_hour"]) == ("2x H100 SXM5", 4.58)
    assert Deployment.objects.get().usd_per_hour == Decimal("4.58")
    assert as_staff.patch(f"/deployments/{made['id']}", {"usd_per_hour": None}).json()["usd_per_hour"] is None


def test_pools_of_accelerators_go_in_and_out_as_they_are(as_staff: Caller) -> None:
    seeded()
    endpoint = as_staff.post("/endpoints", ENDPOINT).json()["id"]
    card = as_staff.get("/accelerators?limit=1").json()["items"][0]["id"]
    prefill = {"name": "prefill", "accelerator_id": card, "count": 1, "gpus": "gpu-1/0", "usd_per_hour": 4.5}
    decode = {"name": "decode", "accelerator_id": card, "count": 3, "gpus": "", "usd_per_hour": 6.0}
    made = as_staff.post("/deployments", {"name": "d", "endpoint_id": endpoint, "pools": [prefill, decode]}).json()
    assert (made["pools"], made["usd_per_hour"]) == ([prefill, decode], 10.5)
    address = f"/deployments/{made['id']}"
    assert as_staff.patch(address, {"engine": "vllm"}).json()["pools"] == [prefill, decode]
    assert "pools" in problems(as_staff.patch(address, {"pools": [{**prefill, "gpus": ""}, decode]}))
    assert "pools" in problems(as_staff.patch(address, {"pools": [{**prefill, "accelerator_id": 10**9}]}))
    assert "usd_per_hour" in problems(as_staff.patch(address, {"usd_per_hour": 3}))
    assert as_staff.get(address).json()["pools"] == [prefill, decode]
    assert as_staff.patch(address, {"pools": []}).json()["hardware"] == "hardware not stated"
    assert as_staff.get("/embodied").json()["items"][0]["accelerator_made_kg"] == 164


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"endpoint_id": 999}, "endpoint"),
        ({"pools": [{"accelerator_id": 2**62}]}, "pools"),
        ({"endpoint_id": 2**70}, "endpoint_id"),
        ({"usd_per_hour": -1}, "usd_per_hour"),
        ({"usd_per_hour": 0.00001}, "usd_per_hour"),
        ({"usd_per_hour": "2"}, "usd_per_hour"),
        ({"replicas": True}, "replicas"),
        ({"replicas": 1.5}, "replicas"),
    ],
)
def test_a_bad_deployment_is_refused_with_its_field(as_staff: Caller, change: dict[str, Any], field: str) -> None:
    endpoint = as_staff.post("/endpoints", ENDPOINT).json()["id"]
    assert field in problems(as_staff.post("/deployments", {"name": "d", "endpoint_id": endpoint, **change}))
    assert not Deployment.objects.exists()


def test_accelerators_come_with_prices_and_sources_and_unknown_as_null(as_user: Caller) -> None:
    seeded()
    listed = as_user.get("/accelerators?limit=2&offset=1").json()
    assert (len(listed["items"]), listed["count"]) == (2, 36)
    every = {item["slug"]: item for item in as_user.get("/accelerators").json()["items"]}
    assert every["h100-sxm"]["mem_bandwidth_gb_s"] == 3350
    assert every["tpu-v5e"]["tdp_w"] is None
    told = {"provider", "kind", "effective_from", "usd_per_hour", "purchase_usd", "note", "source"}
    assert told == set(every["h100-sxm"]["prices"][0])


def test_sites_are_listed_in_pages(as_user: Caller) -> None:
    seeded()
    first = as_user.get("/sites?limit=1000").json()
    assert (len(first["items"]), first["count"]) == (363, 363)
    fleet = next(item for item in first["items"] if item["slug"] == "google-fleet-average")
    assert (fleet["pue"], fleet["grid_g_per_kwh"]) == (1.09, None)
    assert as_user.get(f"/sites/{fleet['id']}").json() == fleet


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "offset=-1", f"offset={2**64}"])
def test_a_bad_page_is_refused(as_user: Caller, query: str) -> None:
    assert problems(as_user.get(f"/sites?{query}")).keys() == {query.split("=")[0]}


def test_a_parameter_that_nothing_takes_is_refused(as_staff: Caller) -> None:
    key = as_staff.post("/endpoints", ENDPOINT).json()["id"]
    assert problems(as_staff.get(f"/endpoints/{key}?full=1")) == {"full": "takes no parameters"}
    assert as_staff.call("DELETE", f"/endpoints/{key}?force=1").status_code == 422
    assert Endpoint.objects.exists()


@pytest.mark.parametrize("path", ["/sites/0", "/sites/x", f"/sites/{2**64}", "/runs/x/cancel"])
def test_an_id_that_is_no_id_is_refused(as_user: Caller, path: str) -> None:
    answer = as_user.call("POST" if "cancel" in path else "GET", path)
    assert "key" in problems(answer)


@pytest.mark.parametrize("path", ["/nothing", "/runs/1/nothing", "/docs/nothing"])
def test_an_unknown_address_is_answered_in_the_same_shape(path: str) -> None:
    answer = Caller().get(path)
    assert answer.status_code == 404
    assert answer.json()["code"] == "no_such_address"


def test_a_stored_key_does_not_follow_the_address_to_another_host(as_staff: Caller) -> None:
    key = as_staff.post("/endpoints", ENDPOINT).json()["id"]
    for url in ("https://gpu-1:8000/v1", "http://gpu-2:8000/v1", "http://gpu-1:8001/v1"):
        refused = as_staff.patch(f"/endpoints/{key}", {"url": url})
        assert "Enter the key for the new one" in problems(refused)["api_key"]
    assert as_staff.patch(f"/endpoints/{key}", {"url": "http://gpu-1:8000/other"}).status_code == 200
    assert Endpoint.objects.get().api_key == KEY
    assert as_staff.patch(f"/endpoints/{key}", {"url": "http://gpu-2:8000", "api_key": KEY}).status_code == 200
    assert as_staff.patch(f"/endpoints/{key}", {"url": "http://gpu-3:8000", "api_key": ""}).status_code == 200
    assert Endpoint.objects.get().api_key == ""


@pytest.mark.parametrize("key", ["ключ-123456", "sk-…abc", "abc\r\nX-Evil: 1", "two words", "end\n", "\x7f"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_repeated(as_staff: Caller, key: str) -> None:
    answer = as_staff.post("/endpoints", {**ENDPOINT, "api_key": key})
    assert "Copy the key anew" in problems(answer)["api_key"]
    assert key not in answer.json()["fields"][0]["problem"]
    assert not Endpoint.objects.exists()


def test_a_refused_parameter_of_a_question_speaks_of_no_change(as_staff: Caller) -> None:
    assert as_staff.get("/endpoints?nonsense=1").json()["detail"] == "Some parameters were refused."


def test_hardware_that_nobody_stated_is_called_so_and_the_cpu_is_a_choice(as_staff: Caller) -> None:
    seeded()
    endpoint = as_staff.post("/endpoints", ENDPOINT).json()["id"]
    made = as_staff.post("/deployments", {"name": "somewhere", "endpoint_id": endpoint}).json()
    assert (made["hardware"], made["runs_on_cpu"]) == ("hardware not stated", False)
    assert as_staff.patch(f"/deployments/{made['id']}", {"runs_on_cpu": True}).json()["hardware"] == "CPU"
    accelerator = as_staff.get("/accelerators?limit=1").json()["items"][0]["id"]
    answer = as_staff.patch(f"/deployments/{made['id']}", {"pools": [{"accelerator_id": accelerator}]})
    assert (answer.status_code, answer.json()["fields"][0]["field"]) == (422, "runs_on_cpu")


WIRE = {
    "url": "https://gpu-1:8000",
    "extra_headers": {"X-Team": "search"},
    "extra_body": {"top_k": 20, "nested": {"a": [1, None]}},
    "proxy": "http://proxy:3128",
    "metrics_url": "http://gpu-1:9400/metrics",
    "api_key_header": "x-api-key",
}


def test_how_requests_go_out_is_kept_and_the_client_certificate_never_comes_out(
    as_staff: Caller, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    pem, ca = authority.certificate("client").read_text(), authority.ca.read_text()
    sent = {"name": "e", "model": "m", **WIRE, "client_pem": pem, "ca_pem": ca}
    made = as_staff.post("/endpoints", sent)
    assert made.status_code == 201, made.json()
    assert made.json() | WIRE == made.json()
    assert made.json()["client_hint"].startswith("CN=client, until ")
    assert "PRIVATE KEY" not in made.content.decode()
    with connection.cursor() as cursor:
        cursor.execute("SELECT client_pem FROM catalog_endpoint")
        assert "BEGIN" not in cursor.fetchone()[0]
    cleared = as_staff.patch(f"/endpoints/{made.json()['id']}", {"client_pem": ""})
    assert cleared.json()["client_hint"] == ""


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"extra_headers": {"Authorization": "Bearer x"}}, "extra_headers", "looks like a secret"),
        ({"extra_headers": {"Host": "x"}}, "extra_headers", "set by the load generator"),
        ({"extra_headers": {"X-A": "a\r\nb: c"}}, "extra_headers", "no line breaks"),
        ({"extra_headers": None}, "extra_headers", "dictionary"),
        ({"extra_body": {"stream": False}}, "extra_body", "Leave out stream"),
        ({"extra_body": {"a": "\x00"}}, "extra_body", "no text can have"),
        ({"extra_body": [1]}, "extra_body", "dictionary"),
        ({"ca_pem": "no pem"}, "ca_pem", "PEM"),
        ({"client_pem": "-----BEGIN"}, "client_pem", "PEM"),
        ({"ca_pem": "x", "url": "http://h"}, "ca_pem", "Only https"),
        ({"proxy": "socks5://p"}, "proxy", "Give an http:// address"),
        ({"proxy": "http://u:p@h"}, "proxy", ""),
        ({"metrics_url": "gpu-1/metrics"}, "metrics_url", "http://"),
        ({"metrics_url": "http://169.254.169.254/"}, "metrics_url", "never contacted"),
        ({"api_key_header": "a b"}, "api_key_header", "header name"),
    ],
)
def test_what_could_not_be_sent_is_refused_with_its_field(
    as_staff: Caller, change: dict[str, Any], field: str, words: str
) -> None:
    answer = as_staff.post("/endpoints", {"name": "e", "model": "m", "url": "https://h", **change})
    assert answer.status_code == 422, answer.json()
    assert words in {name.split(".")[0]: text for name, text in problems(answer).items()}[field]


@pytest.mark.parametrize("change", [{"proxy": "http://other:3128"}, {"ca_pem": "CA"}])
def test_a_stored_key_does_not_follow_to_another_proxy_or_authority(
    as_staff: Caller, tmp_path: Path, change: dict[str, str]
) -> None:
    change = {name: Authority(tmp_path).ca.read_text() if value == "CA" else value for name, value in change.items()}
    sent = {"name": "e", "model": "m", "url": "https://h", "api_key": "sk-one-two-three"}
    key = as_staff.post("/endpoints", sent).json()["id"]
    assert "proxy and authority before" in problems(as_staff.patch(f"/endpoints/{key}", change))["api_key"]
    assert as_staff.patch(f"/endpoints/{key}", {**change, "api_key": "sk-one-two-three"}).status_code == 200


@pytest.mark.parametrize("name", ["extra_body", "extra_headers", "ca_pem", "client_pem", "proxy", "metrics_url", "url"])
def test_null_is_no_value_for_what_has_none(as_staff: Caller, name: str) -> None:
    key = as_staff.post("/endpoints", {"name": "e", "model": "m", "url": "http://h"}).json()["id"]
    answer = as_staff.patch(f"/endpoints/{key}", {name: None})
    assert (answer.status_code, list(problems(answer))) == (422, [name])
