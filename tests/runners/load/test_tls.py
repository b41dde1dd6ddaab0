"""TLS through memory buffers: streams come out right, and each refusal has its reason."""

import ssl

import pytest

from runners.load.answer import Answer
from runners.load.check import exchange_once
from runners.load.target import Requests, base_endpoint, destination
from runners.spec import Target, Timeouts
from tests.services.misbehaving import good, serving
from tests.services.tls import Authority, serving_tls

TIMEOUTS = Timeouts(connect_s=2.0, first_byte_s=2.0, idle_s=2.0, total_s=5.0)


def long_answer(wire) -> None:
    wire.head()
    wire.words(*(f"word{number} " * 40 for number in range(300)))
    wire.finish(tokens=300)


SCRIPTS = {"good": good, "long": long_answer}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def trusted(authority, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))


def row_of(url: str, model: str = "good") -> dict[str, object]:
    endpoint = base_endpoint(url)
    requests = Requests(endpoint, Target(url, model))
    exchange = exchange_once(destination(endpoint), TIMEOUTS, requests.build("hi " * 30_000, 8), 8)
    return Answer(exchange, requests.form).row()


@pytest.mark.parametrize("model", ["good", "long"])
def test_a_stream_behind_tls_comes_out_whole(authority, model):
    with serving_tls(SCRIPTS, authority.certificate()) as server:
        row = row_of(server.url, model)
    assert row["outcome"] == "ok"
    assert row["events"] == {"good": 2, "long": 300}[model]
    assert row["connect_ns"] > 0


@pytest.mark.parametrize(
    ("host", "options", "reason"),
    [
        ("127.0.0.1", {"days": -1}, "expired"),
        ("127.0.0.1", {"self_signed": True}, "self_signed"),
        ("127.0.0.9", {}, "hostname"),
    ],
)
def test_a_certificate_that_must_not_be_trusted_is_refused_with_the_reason(authority, host, options, reason):
    with serving_tls(SCRIPTS, authority.certificate(host, **options)) as server:
        row = row_of(server.url)
    assert row["outcome"] == "tls_error"
    assert row["detail"].startswith(reason)


def test_an_unknown_issuer_is_refused(authority, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(tmp_path, "Another authority").ca))
    with serving_tls(SCRIPTS, authority.certificate()) as server:
        row = row_of(server.url)
    assert (row["outcome"], row["detail"].split(":")[0]) == ("tls_error", "unknown_issuer")


def test_old_tls_versions_are_not_spoken(authority):
    with serving_tls(SCRIPTS, authority.certificate(), maximum_version=ssl.TLSVersion.TLSv1_2) as server:
        assert row_of(server.url)["outcome"] == "ok"


def test_https_to_a_plain_port_hints_at_http():
    with serving(SCRIPTS) as server:
        row = row_of(server.url.replace("http:", "https:"))
    assert row["outcome"] == "tls_error"
    assert "is it http" in row["detail"]


def test_http_to_a_tls_port_is_no_answer_and_leaks_no_bytes(authority):
    with serving_tls(SCRIPTS, authority.certificate()) as server:
        row = row_of(server.url.replace("https:", "http:"))
    assert row["outcome"] in ("closed_early", "protocol_error", "reset")
