"""TLS through memory buffers: streams come out right, and each refusal has its reason."""

import ssl

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from runners.load.answer import Answer
from runners.load.check import exchange_once, explain
from runners.load.target import Requests, base_endpoint, destination
from runners.spec import SpecError, Target, Timeouts
from tests.services.misbehaving import good, serving
from tests.services.proxy import proxying
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


def row_of(url: str, model: str = "good", **files: str) -> dict[str, object]:
    endpoint, target = base_endpoint(url), Target(url, model, **files)
    requests = Requests(endpoint, target)
    exchange = exchange_once(destination(endpoint, target), TIMEOUTS, requests.build("hi " * 30_000, 8), 8)
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


def test_a_chain_without_its_intermediate_is_refused_and_with_it_taken(authority, tmp_path):
    between = Authority(tmp_path, "An authority between", above=authority)
    leaf = between.certificate()
    with serving_tls(SCRIPTS, leaf) as server:
        row = row_of(server.url)
    assert (row["outcome"], row["detail"].split(":")[0]) == ("tls_error", "unknown_issuer")
    leaf.write_bytes(leaf.read_bytes() + between.ca.read_bytes())
    with serving_tls(SCRIPTS, leaf) as server:
        assert row_of(server.url)["outcome"] == "ok"


def test_a_self_signed_certificate_passes_only_with_a_file_that_holds_it(authority):
    certificate = authority.certificate(self_signed=True)
    with serving_tls(SCRIPTS, certificate) as server:
        assert row_of(server.url)["outcome"] == "tls_error"
        assert row_of(server.url, ca_file=str(certificate))["outcome"] == "ok"


def test_a_ca_file_takes_the_place_of_the_systems_authorities(authority, tmp_path):
    other = Authority(tmp_path, "Another authority")
    with serving_tls(SCRIPTS, authority.certificate()) as server:
        assert row_of(server.url, ca_file=str(authority.ca))["outcome"] == "ok"
        assert row_of(server.url, ca_file=str(other.ca))["outcome"] == "tls_error"


def test_the_name_asked_for_by_sni_and_host_is_the_urls_though_an_address_is_connected_to(authority):
    with serving_tls(SCRIPTS, authority.certificate("localhost")) as server:
        row = row_of(server.url.replace("127.0.0.1", "localhost"))
    assert row["outcome"] == "ok"
    assert server.names == ["localhost"]
    assert f"Host: localhost:{server.port}".encode() in server.heads[0]


def test_a_server_that_asks_for_a_client_certificate_gets_it_or_the_request_says_so(authority, tmp_path):
    clients = Authority(tmp_path, "Clients")
    certificate = str(clients.certificate("client"))
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with serving_tls(SCRIPTS, authority.certificate(), clients=clients.ca, maximum_version=version) as server:
            refused = row_of(server.url)
            taken = row_of(server.url, client_cert_file=certificate)
        assert (refused["outcome"], refused["detail"].split(":")[0]) == ("tls_error", "client_cert")
        assert taken["outcome"] == "ok"


def test_pem_files_that_cannot_be_used_name_the_field_and_ask_nothing_on_the_terminal(authority, tmp_path):
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    encrypted = tmp_path / "encrypted.pem"
    encrypted.write_bytes(key)
    certificate = str(authority.certificate())
    for files, field in (
        ({"ca_file": "/no/such.pem"}, "target.ca_file"),
        ({"ca_file": str(encrypted)}, "target.ca_file"),
        ({"client_cert_file": str(authority.ca)}, "target.client_cert_file"),
        ({"client_cert_file": certificate, "client_key_file": str(encrypted)}, "target.client_cert_file"),
    ):
        with pytest.raises(SpecError, match=field):
            row_of("https://127.0.0.1:1", **files)


def test_a_tunnel_through_a_proxy_is_checked_against_the_endpoints_name(authority):
    with serving_tls(SCRIPTS, authority.certificate()) as server, proxying() as proxy:
        row = row_of(server.url, proxy=proxy.url)
    assert row["outcome"] == "ok"
    assert proxy.asked == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1")
def test_versions_that_are_no_longer_safe_are_not_spoken(authority):
    old = {"minimum_version": ssl.TLSVersion.TLSv1, "maximum_version": ssl.TLSVersion.TLSv1}
    with serving_tls(SCRIPTS, authority.certificate(), ciphers="ALL:@SECLEVEL=0", **old) as server:
        row = row_of(server.url)
    assert (row["outcome"], row["detail"].split(":")[0]) == ("tls_error", "version")


def test_https_to_a_plain_port_hints_at_http():
    with serving(SCRIPTS) as server:
        row = row_of(server.url.replace("http:", "https:"))
    assert row["outcome"] == "tls_error"
    assert "is it http" in row["detail"]


def test_http_to_a_tls_port_hints_at_https_and_leaks_no_bytes(authority):
    with serving_tls(SCRIPTS, authority.certificate()) as server:
        row = row_of(server.url.replace("https:", "http:"))
    assert row["outcome"] in ("closed_early", "protocol_error", "reset")
    assert row["response_model"] is None
    assert "http or https?" in explain(row)
