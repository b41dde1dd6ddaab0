"""One replica reads the prompt, the other answers."""

import json
from typing import Any

from tests.runners.router.asking import ask, dead
from tests.runners.router.test_models import decided, says
from tests.services.misbehaving import Script, Wire, json_body


def reads(asked: list[dict[str, Any]], status: str = "200 OK") -> Script:
    def script(wire: Wire) -> None:
        asked.append(wire.request)
        json_body({"choices": [{"message": {"content": "o"}}]}, status)(wire)

    return script


def test_the_prompt_is_read_by_one_for_a_single_token_and_answered_by_the_other(servers, router) -> None:
    asked: list[dict[str, Any]] = []
    prefill, decode = servers(reads(asked), says("answer"))
    url = router(prefill.url, decode.url, policy="disaggregated")
    said = ask(url, "a long prompt", stream=True, stream_options={"include_usage": True}, max_tokens=64, min_tokens=64)
    assert "answer" in said
    assert '"o"' not in said
    (sent,) = asked
    assert sent["messages"] == [{"role": "user", "content": "a long prompt"}]
    assert sent["max_tokens"] == 1
    assert not {"stream", "stream_options", "min_tokens"} & set(sent)
    assert decided(url) == {"prefilled": 1}


def test_where_the_prompt_cannot_be_read_the_other_reads_it_itself(servers, router) -> None:
    refusing, decode = servers(reads([], "503 Service Unavailable"), says("answer"))
    for first in (refusing.url, dead()):
        url = router(first, decode.url, policy="disaggregated")
        assert "answer" in ask(url, max_completion_tokens=8)
        assert decided(url) == {"prefill_failed": 1}


def test_a_limit_by_its_newer_name_is_lowered_too(servers, router) -> None:
    asked: list[dict[str, Any]] = []
    prefill, decode = servers(reads(asked), says("answer"))
    ask(router(prefill.url, decode.url, policy="disaggregated"), max_completion_tokens=8)
    assert json.dumps(asked[0]["max_completion_tokens"]) == "1"
    assert "max_tokens" not in asked[0]
