"""Lengths are true to the model's tokenizer: the endpoint's own or a file's, if it counts as the model does."""

import json

import pytest

from runners.load.check import Asker, Needs, check
from runners.load.target import Requests, base_endpoint, destination
from runners.load.tokens import endpoint_counter, single_token_words, tokenizer_counter
from runners.load.words import WORDS
from runners.spec import Target, Timeouts
from tests.services.misbehaving import Counting, serving


def test_a_tokenizer_file_counts(tmp_path):
    vocabulary = {"one": 0, "two": 1, "?": 2}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "?"}
    (tmp_path / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model,
        "truncation": None, "padding": None, "normalizer": None, "post_processor": None, "decoder": None,
    }))  # fmt: skip
    assert tokenizer_counter(str(tmp_path / "tokenizer.json"))("one two one") == 3


def test_a_file_that_is_no_tokenizer_is_refused_with_what_to_give(tmp_path):
    (tmp_path / "file").write_text("{}")
    with pytest.raises(ValueError, match=r"give the path of a tokenizer\.json"):
        tokenizer_counter(str(tmp_path / "file"))


@pytest.mark.parametrize("field", ["content", "prompt"])
def test_the_endpoints_own_tokenizer_is_asked_in_the_forms_of_llama_cpp_and_of_vllm(field):
    asked = []

    def post(path, body):
        asked.append((path, set(body)))
        return {"tokens": body[field].split()} if field in body else {"error": "no"}

    count = endpoint_counter(post, "m")
    assert count is not None
    assert count("a b c") == 3
    assert {path for path, _ in asked} == {"/tokenize"}


@pytest.mark.parametrize("answer", [None, {}, {"tokens": "many"}, [1, 2], "x", {"tokens": []}])
def test_an_endpoint_without_one_has_none(answer):
    assert endpoint_counter(lambda path, body: answer, "m") is None


def test_words_of_several_tokens_are_left_out():
    several = set(WORDS[10:14]) | {WORDS[200]}
    found = single_token_words(lambda text: sum(2 if word in several else 1 for word in text.split()), WORDS)
    assert set(found) == set(WORDS) - several


def test_words_of_several_tokens_at_the_beginning_of_a_prompt_are_left_out():
    several = set(WORDS[3:5]) | {WORDS[200]}

    def count(text: str) -> int:
        lines = text.split("\n")
        first = sum(line.split(" ")[0] in several for line in lines)
        return len(text.split()) + len(lines) - 1 + first

    assert set(single_token_words(count, WORDS)) == set(WORDS) - several


def test_a_counter_that_makes_no_sense_gives_no_words_and_is_not_asked_for_ever():
    calls = []
    assert single_token_words(lambda text: calls.append(text) or 7, WORDS) == ()
    assert len(calls) < 100


# before a run


NOTHING = Needs()


def checked(needs=NOTHING, count_tokens=None):
    with serving({"keep": Counting()}) as server:
        endpoint = base_endpoint(server.url)
        asker = Asker(destination(endpoint), Timeouts(2, 2, 2, 5))
        return check(asker, Requests(endpoint, Target(server.url, "keep")), "salt", needs, count_tokens)


def test_without_a_tokenizer_the_servers_usage_tells_lengths():
    found = checked()
    assert (found.lengths_from, found.count_tokens) == ("usage", None)
    assert found.fit.overhead_tokens == Counting.TEMPLATE


def test_a_tokenizer_that_counts_as_the_server_does_is_used():
    found = checked(count_tokens=lambda text: len(text.split()))
    assert found.lengths_from == "tokenizer"
    assert found.fit.overhead_tokens == Counting.TEMPLATE
    assert found.count_tokens("a b") == 2


def test_a_tokenizer_of_another_model_is_not_believed():
    found = checked(count_tokens=lambda text: 2 * len(text.split()))
    assert (found.lengths_from, found.count_tokens) == ("usage", None)
    assert found.fit.tokens_per_word == 1


def test_what_further_turns_and_a_system_prompt_cost_is_asked_where_the_workload_has_them():
    assert checked().fit.turn_tokens is None
    plain, system = checked(Needs(turns=True)).fit, checked(Needs(turns=True, system=True)).fit
    assert (plain.overhead_tokens, plain.turn_tokens) == (Counting.TEMPLATE, 2 * Counting.MESSAGE)
    assert (system.overhead_tokens, system.turn_tokens) == (Counting.TEMPLATE + Counting.MESSAGE, 2 * Counting.MESSAGE)
