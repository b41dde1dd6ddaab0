import pytest
from django.test import Client

from observatory.catalog.models import Deployment, Endpoint, Site
from observatory.pages import probes
from tests import factories
from tests.pages.cast import PROBE
from tests.services.misbehaving import Server

KEY = "sk-very-secret-1234abcd"


def form(**changes: str) -> dict[str, str]:
    return {
        "name": "gpu-1",
        "url": "http://127.0.0.1:9",
        "dialect": "openai-chat",
        "model": "m",
        "api_key": "",
        "billing": "machine",
        **changes,
    }


def text(client: Client, address: str) -> str:
    return client.get(address).content.decode()


def test_saving_an_endpoint_asks_the_server_and_takes_the_model_that_it_names(
    staff_client: Client, server: Server
) -> None:
    answer = staff_client.post("/endpoints/new", form(url=f"{server.url}/", model=""))
    endpoint = Endpoint.objects.get()
    assert answer.url == f"/endpoints/{endpoint.pk}"
    assert (endpoint.model, endpoint.url, endpoint.created_by.username) == ("m", server.url, "grace")
    page = text(staff_client, answer.url)
    assert "The server answers and can be measured" in page
    assert "lists its models" in page


def test_an_endpoint_that_cannot_be_measured_yet_is_kept_with_what_to_do(staff_client: Client) -> None:
    answer = staff_client.post("/endpoints/new", form(), follow=True)
    page = answer.content.decode()
    assert "cannot be measured yet" in page
    assert "Start the server, or correct the port" in page
    assert Endpoint.objects.get().probe["code"] == "connect_refused"


def test_a_model_that_nobody_names_must_be_typed(staff_client: Client) -> None:
    page = staff_client.post("/endpoints/new", form(model="")).content.decode()
    assert "Start the server, or correct the port." in page
    assert "Correct this, or type the model" in page
    assert not Endpoint.objects.exists()


def test_a_wrong_address_is_refused_with_the_fix(staff_client: Client) -> None:
    for url, fix in {
        "gpu-1:8000": "Start the URL with http:// or https://",
        "http://169.254.169.254/v1": "is never contacted",
        "http://user:pass@gpu-1:8000": "put the key into the API key field",
    }.items():
        assert fix in staff_client.post("/endpoints/new", form(url=url)).content.decode()
    assert not Endpoint.objects.exists()


def test_a_key_is_written_and_never_read_again(staff_client: Client) -> None:
    endpoint = Endpoint.objects.create(name="gpu-1", url="http://127.0.0.1:9", model="m", api_key=KEY)
    page = f"/endpoints/{endpoint.pk}"
    addresses = [page, f"{page}.json", f"{page}/edit", "/endpoints", "/endpoints.json", "/welcome?endpoint=1"]
    for address in addresses:
        assert KEY not in text(staff_client, address)
    assert KEY not in staff_client.get("/endpoints.csv").getvalue().decode()
    assert "ends with …abcd" in text(staff_client, page)


def test_an_empty_key_field_keeps_the_key_and_the_box_removes_it(staff_client: Client) -> None:
    endpoint = Endpoint.objects.create(name="gpu-1", url="http://127.0.0.1:9", model="m", api_key=KEY)
    page = f"/endpoints/{endpoint.pk}/edit"
    for sent, kept in (({}, KEY), ({"api_key": "another-key-5678"}, "another-key-5678"), ({"forget_key": "on"}, "")):
        staff_client.post(page, form(**sent))
        endpoint.refresh_from_db()
        assert endpoint.api_key == kept


def test_probing_again_keeps_the_new_answer_and_shows_it_in_place(staff_client: Client, server: Server) -> None:
    endpoint = Endpoint.objects.create(name="gpu-1", url=server.url, model="broken")
    part = staff_client.post(f"/endpoints/{endpoint.pk}/probe", headers={"HX-Request": "true"}).content.decode()
    assert "This cannot be measured" in part
    assert "<html" not in part
    Endpoint.objects.update(model="m")
    assert staff_client.post(f"/endpoints/{endpoint.pk}/probe").url == f"/endpoints/{endpoint.pk}"
    endpoint.refresh_from_db()
    assert endpoint.probe["usable"]


def test_a_deployment_takes_what_the_probe_has_found_out(staff_client: Client) -> None:
    endpoint = Endpoint.objects.create(name="gpu-1", url="http://127.0.0.1:9", model="m", probe=PROBE)
    page = text(staff_client, f"/deployments/new?endpoint={endpoint.pk}")
    assert 'value="llama.cpp"' in page
    assert 'value="m on gpu-1"' in page


def test_a_negative_price_is_refused(staff_client: Client) -> None:
    endpoint = Endpoint.objects.create(name="gpu-1", url="http://127.0.0.1:9", model="m")
    sent = {
        "name": "d",
        "endpoint": endpoint.pk,
        "usd_per_hour": "-1",
        "pools-TOTAL_FORMS": 0,
        "pools-INITIAL_FORMS": 0,
    }
    page = staff_client.post("/deployments/new", sent | dict.fromkeys(("tensor_parallel", "replicas"), 1))
    assert "greater than or equal to 0" in page.content.decode()
    assert not Deployment.objects.exists()


def test_what_is_known_of_a_site_is_filled_in_by_staff(staff_client: Client) -> None:
    site = Site.objects.create(slug="cellar", name="Cellar")
    refused = staff_client.post(f"/sites/{site.pk}/edit", {"effective_from": "2026-11-01", "pue": "0.5"})
    assert "greater than or equal to 1" in refused.content.decode()
    facts = {"effective_from": "2026-11-01", "pue": "1.4", "source": "meter"}
    staff_client.post(f"/sites/{site.pk}/edit", facts)
    assert (site.current.pue, site.current.source, site.current.grid_g_per_kwh) == (1.4, "meter", None)


def test_a_stored_key_does_not_follow_the_address_to_another_host(staff_client: Client) -> None:
    endpoint = Endpoint.objects.create(name="gpu-1", url="http://127.0.0.1:9", model="m", api_key=KEY)
    page = f"/endpoints/{endpoint.pk}/edit"
    moved = form(url="http://127.0.0.1:10")
    assert "Enter the key for the new one" in staff_client.post(page, moved).content.decode()
    endpoint.refresh_from_db()
    assert endpoint.url == "http://127.0.0.1:9"
    staff_client.post(page, {**moved, "api_key": KEY})
    endpoint.refresh_from_db()
    assert (endpoint.url, endpoint.api_key) == ("http://127.0.0.1:10", KEY)
    staff_client.post(page, {**form(), "forget_key": "on"})
    endpoint.refresh_from_db()
    assert (endpoint.url, endpoint.api_key) == ("http://127.0.0.1:9", "")


def test_a_key_that_no_header_can_carry_is_refused_on_every_form(staff_client: Client) -> None:
    for key in ("ключ-123456", "sk-…abc", "abc\r\nX-Evil: 1"):
        for address in ("/endpoints/new", "/welcome/probe"):
            assert "Copy the key anew" in staff_client.post(address, form(api_key=key)).content.decode()
    assert not Endpoint.objects.exists()


def test_an_endpoint_that_was_measured_but_never_probed_says_when(user_client: Client) -> None:
    run = factories.finished_run()
    html = " ".join(user_client.get(run.endpoint.get_absolute_url()).content.decode().split())
    assert "Not probed yet. Last measured" in html
    assert f'<a href="{run.get_absolute_url()}">run {run.pk}</a>.' in html


def test_a_version_that_the_server_does_not_know_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"usable": True, "models": ["m"], "engine": "llama.cpp", "engine_version": "b0-unknown"}
    monkeypatch.setattr(probes, "probe", lambda *_: dict(said))
    assert probes.ask(Endpoint(url="http://127.0.0.1:9"))["engine_version"] == ""
