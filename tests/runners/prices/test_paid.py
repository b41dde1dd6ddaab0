"""Which endpoints are known to charge by the token, and which addresses are nobody's."""

import socket

import pytest

from runners.address import DnsError
from runners.prices.paid import charging


def never(host, port):
    raise AssertionError(f"{host} was looked up")


def at(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return lambda host, port: [(family, (address, port))]


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("http://API.OPENAI.com.:443", "openai"),
        ("https://api.anthropic.com", "anthropic"),
        ("https://eu-west.openai.azure.com/openai", "azure"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://router.huggingface.co/groq/openai/v1", "huggingface_groq"),
    ],
)
def test_a_host_of_the_price_list_charges_whatever_the_model(url, provider):
    assert charging(url, "anything", never) == f"{provider} charges for each token at this address"


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8000", "http://[::1]:8000", "http://10.1.2.3", "http://192.168.0.2", "http://100.64.0.7",
     "http://[fd12::1]", "http://gpu-1:8000", "http://localhost", "http://llm.corp", "http://gpu.local", "not a url"],
)  # fmt: skip
def test_loopback_and_private_addresses_do_not_charge_and_are_not_looked_up(url):
    assert charging(url, "gpt-4o", never) == ""


@pytest.mark.parametrize(
    ("model", "maker"),
    [("gpt-4o", "openai"), ("openai/gpt-4o", "openai"), ("Claude-Opus-4-5", "anthropic"), ("grok-4", "x-ai")],
)
def test_a_public_address_with_a_model_that_is_sold_charges(model, maker):
    words = charging("https://llm.example.com/v1", model, at("8.8.8.8"))
    assert words == f"llm.example.com is a public address and {model} a model that {maker} sells by the token"


def test_a_name_of_private_addresses_does_not_charge():
    assert charging("https://llm.example.com", "gpt-4o", at("10.0.0.4")) == ""
    assert charging("https://llm.example.com", "gpt-4o", at("fd12::1")) == ""


def test_a_name_that_cannot_be_looked_up_is_taken_to_be_public():
    def fails(host, port):
        raise DnsError("no such name")

    assert "is a public address" in charging("https://llm.example.com", "gpt-4o", fails)


def test_a_model_that_nobody_sells_costs_nothing_anywhere():
    assert charging("https://llm.example.com", "our-finetune", never) == ""
    assert charging("https://llm.example.com", "", never) == ""
