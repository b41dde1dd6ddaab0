"""No secret and no surprise gets out of an answer; what each kind of bad input counts as is in test_bad_input.py."""

import pytest

from runners.load.answer import row_of
from runners.load.check import exchange_once
from runners.load.target import Requests, base_endpoint, destination
from runners.spec import Target, Timeouts
from tests.services.bad_input import told, usage_of, with_events
from tests.services.misbehaving import content, json_body, serving

TIMEOUTS = Timeouts(connect_s=5.0, first_byte_s=10.0, idle_s=10.0, total_s=20.0)


def test_reading_an_answer_never_ends_a_run():
    def fails(text: str) -> int:
        raise RecursionError(text)

    with serving({"m": told(usage_of(2))}) as server:
        requests = Requests(base_endpoint(server.url), Target(server.url, "m"))
        exchange = exchange_once(destination(requests.endpoint), TIMEOUTS, requests.build("hi", 8), 8)
    row = row_of(exchange, requests.form, count_tokens=fails)
    assert (row["outcome"], row["detail"]) == ("bad_payload", "the answer cannot be read (RecursionError)")
    assert row["http_status"] == 200


@pytest.mark.parametrize("before", [0, 60, 250, 16_300])
@pytest.mark.parametrize("kind", ["not_json", "error", "html", "field"])
def test_no_part_of_an_echoed_key_survives_the_cut_to_length(before, kind):
    key = "sk-" + "0123456789abcdef" * 4
    filler = "x" * before
    script = {
        "not_json": with_events(f"{filler}{key} and more".encode()),
        "error": with_events({"error": {"message": filler + key}}),
        "html": json_body(f"<p>{filler}{key}</p>".encode(), "500 Oops", "text/html"),
        "field": with_events({**content("a"), "model": filler + key}, done=False),
    }[kind]
    with serving({"m": script}) as server:
        requests = Requests(base_endpoint(server.url), Target(server.url, "m"), key=key)
        exchange = exchange_once(destination(requests.endpoint), TIMEOUTS, requests.build("hi", 8), 8)
    row = row_of(exchange, requests.form, secret=key)
    assert "sk-0" not in str(row)
