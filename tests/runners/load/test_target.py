"""What goes out: paths, keys, headers, body fields, models, images."""

import base64
import json
from typing import Any

import pytest

from runners.load.target import Requests, api_key, base_endpoint
from runners.spec import Dialect, Images, ModelShare, SpecError, Target, Workload


def requests_for(dialect: Dialect = Dialect.OPENAI_CHAT, *, key: str = "", **more: Any) -> Requests:
    workload = more.pop("workload", Workload())
    url = more.pop("url", "http://h:8000")
    return Requests(base_endpoint(url, dialect), Target(url, more.pop("model", "m"), dialect, **more), workload, key)


def sent(requests: Requests, **more: Any) -> tuple[list[str], dict[str, Any]]:
    """(head lines, body) of one request."""
    head, _, body = requests.build("hi", 8, **more).partition(b"\r\n\r\n")
    return head.decode("latin-1").split("\r\n"), json.loads(body)


@pytest.mark.parametrize(
    ("url", "dialect", "line"),
    [
        ("http://h", "openai-chat", "POST /v1/chat/completions HTTP/1.1"),
        ("http://h/v1/", "openai-chat", "POST /v1/chat/completions HTTP/1.1"),
        ("http://h/v1/chat/completions", "openai-completions", "POST /v1/completions HTTP/1.1"),
        ("https://h/api/paas/v4", "openai-chat", "POST /api/paas/v4/chat/completions HTTP/1.1"),
        ("https://h/v1beta1/openai/v1", "openai-responses", "POST /v1beta1/openai/v1/responses HTTP/1.1"),
        ("https://h/v2/rerank", "rerank", "POST /v2/rerank HTTP/1.1"),
        ("http://h:11434/v1", "ollama-chat", "POST /api/chat HTTP/1.1"),
        ("http://h/gw/api/generate", "ollama-generate", "POST /gw/api/generate HTTP/1.1"),
        ("http://h/v2/models/x/generate", "triton-generate", "POST /v2/models/m/generate_stream HTTP/1.1"),
        ("http://h/completion", "llamacpp-completion", "POST /completion HTTP/1.1"),
    ],
)
def test_the_path_is_the_base_and_the_dialects_own(url, dialect, line):
    assert sent(requests_for(Dialect(dialect), url=url))[0][0] == line


def test_a_model_in_the_path_is_encoded_and_must_be_named():
    lines, _ = sent(requests_for(Dialect.TRITON_GENERATE, model="a b/c?"))
    assert lines[0] == "POST /v2/models/a%20b%2Fc%3F/generate_stream HTTP/1.1"
    with pytest.raises(SpecError, match=r"target\.model"):
        requests_for(Dialect.TRITON_GENERATE, model="")


@pytest.mark.parametrize(
    ("dialect", "header", "line"),
    [
        ("openai-chat", "", "Authorization: Bearer sk-1"),
        ("anthropic-messages", "", "x-api-key: sk-1"),
        ("anthropic-messages", "Authorization: Bearer", "Authorization: Bearer sk-1"),
        ("openai-chat", "api-key", "api-key: sk-1"),
        ("openai-chat", "Authorization: Token", "Authorization: Token sk-1"),
    ],
)
def test_the_key_goes_where_the_dialect_or_the_target_says(dialect, header, line):
    lines, _ = sent(requests_for(Dialect(dialect), key="sk-1", api_key_header=header))
    assert [found for found in lines if "sk-1" in found] == [line]


def test_without_a_key_no_header_for_it_is_sent():
    lines, _ = sent(requests_for(Dialect.ANTHROPIC_MESSAGES))
    assert not any(line.lower().startswith(("authorization", "x-api-key")) for line in lines)
    assert "anthropic-version: 2023-06-01" in lines


def test_more_headers_and_body_fields_go_out_and_take_the_place_of_ours():
    lines, body = sent(
        requests_for(
            Dialect.ANTHROPIC_MESSAGES,
            extra_headers={"Anthropic-Version": "2099-01-01", "User-Agent": "me", "X-Team": "a=b c"},
            extra_body={"temperature": 0.7, "top_k": 3, "nested": {"x": [None]}},
        )
    )
    assert [line for line in lines if "version" in line.lower()] == ["Anthropic-Version: 2099-01-01"]
    assert [line for line in lines if line.startswith("User-Agent")] == ["User-Agent: me"]
    assert "X-Team: a=b c" in lines
    assert (body["temperature"], body["top_k"], body["nested"]) == (0.7, 3, {"x": [None]})


def test_several_choices_and_whole_answers_are_asked_for():
    _, body = sent(requests_for(workload=Workload(choices=3, stream=False)))
    assert body["n"] == 3
    assert "stream" not in body
    lines, _ = sent(requests_for(Dialect.TGI_GENERATE, workload=Workload(stream=False)))
    assert lines[0] == "POST /generate HTTP/1.1"
    assert "Accept: application/json" in lines


@pytest.mark.parametrize(
    ("dialect", "workload", "field"),
    [
        ("openai-responses", Workload(choices=2), "workload.choices"),
        ("rerank", Workload(choices=2), "workload.choices"),
        ("openai-completions", Workload(images=Images(1)), "workload.images"),
        ("openai-embeddings", Workload(images=Images(1)), "workload.images"),
    ],
)
def test_what_a_dialect_has_no_words_for_is_refused_by_name(dialect, workload, field):
    with pytest.raises(SpecError, match=f"{field}: the dialect {dialect}"):
        requests_for(Dialect(dialect), workload=workload)


def test_one_of_several_models_is_named_and_the_first_without_a_choice():
    requests = requests_for(model="", workload=Workload(models=(ModelShare("base"), ModelShare("lora-a"))))
    assert requests.models == ("base", "lora-a")
    assert sent(requests)[1]["model"] == "base"
    assert sent(requests, model="lora-a")[1]["model"] == "lora-a"


@pytest.mark.parametrize(
    "dialect", ["openai-chat", "openai-responses", "anthropic-messages", "ollama-chat", "ollama-generate"]
)
def test_images_go_out_in_the_dialects_own_form(dialect):
    image = base64.b64encode(b"a picture").decode()
    _, body = sent(requests_for(Dialect(dialect)), images=(image, image))
    text = json.dumps(body)
    assert text.count(image) == 2
    assert ("data:image/png;base64," in text) == dialect.startswith("openai")
    assert '"hi"' in text


def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(monkeypatch):
    monkeypatch.setenv("OUR_KEY", "sk-ünïcode\n")
    with pytest.raises(SpecError, match="OUR_KEY holds characters") as error:
        api_key(Target("http://h", api_key_env="OUR_KEY"))
    assert "sk-" not in str(error.value)


@pytest.mark.parametrize("key", ["sk-ü", "sk-1\r\nX-Evil: 1", "sk 1", "sk-\x00"])
def test_a_key_that_would_add_a_header_never_makes_a_request(key):
    with pytest.raises(SpecError, match="no header can carry") as error:
        Requests(base_endpoint("http://h"), Target("http://h", "m"), key=key)
    assert "sk-" not in str(error.value)


def test_a_model_name_adds_no_header():
    requests = Requests(base_endpoint("http://h"), Target("http://h", "m", Dialect.TRITON_GENERATE))
    head = requests.build("hi", 1, model="m\r\nX-Evil: 1").split(b"\r\n\r\n")[0]
    assert b"\r\nX-Evil" not in head
