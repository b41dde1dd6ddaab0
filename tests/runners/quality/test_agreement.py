from math import exp, log

import pytest

from runners.load.dialects.base import Token
from runners.quality.agreement import agreement, kl_nats
from runners.quality.answers import Answer, from_table, table


def answer(name: str, text: str | None, correct: bool | None = True, tokens: tuple[Token, ...] = ()) -> Answer:
    return Answer(name, "exact", text=text, correct=correct, tokens=tokens, outcome="ok" if text else "reset")


def token(text: str, chances: dict[str, float]) -> Token:
    return Token(text, log(chances[text]), tuple((one, log(p)) for one, p in chances.items()))


def test_an_endpoint_agrees_with_itself() -> None:
    chances = {"a": 0.7, "b": 0.2}
    own = [answer(str(i), "a a", bool(i % 2), (token("a", chances),) * 2) for i in range(10)]
    found = agreement(own, own)
    assert found["identical"]["share"] == 1.0
    assert found["identical"]["low"] == pytest.approx(0.722, abs=1e-3)
    assert found["first_difference"] == {"unit": "tokens", "n": 0, "min": None, "p50": None, "alike_share": 1.0}
    assert found["logprobs"]["kl"]["mean"] == 0.0
    assert found["logprobs"]["top1"]["mean"] == 0.0
    assert found["flips"]["p_value"] == 1.0
    assert found["changed"] == []


def test_words_tell_where_answers_part_when_tokens_are_missing() -> None:
    reference = [answer("1", "red green blue sky"), answer("2", "yes"), answer("3", "one two")]
    other = [answer("1", "red green grey sky"), answer("2", "yes"), answer("3", "one")]
    found = agreement(reference, other)["first_difference"]
    assert found["unit"] == "words"
    assert (found["n"], found["min"], found["p50"]) == (2, 1, 1.5)
    assert found["alike_share"] == pytest.approx((2 / 4 + 1 + 1 / 2) / 3)


def test_log_probabilities_are_compared_while_both_have_the_same_text_before_them() -> None:
    same, moved = {"a": 0.8, "b": 0.1}, {"a": 0.4, "b": 0.5}
    left = (token("a", same), token("a", same), token("a", same))
    right = (token("a", same), token("b", moved), token("b", moved))
    found = agreement([answer("1", "aaa", tokens=left)], [answer("1", "abb", tokens=right)])["logprobs"]
    # place 0 is alike, place 1 is where they part, place 2 has another text before it
    assert found["places"] == 2
    assert found["top1"]["mean"] == pytest.approx(log(0.8 / 0.4) / 2)
    kl = 0.8 * log(0.8 / 0.4) + 0.1 * log(0.1 / 0.5) + 0.1 * log(0.1 / 0.1)
    assert found["kl"]["mean"] == pytest.approx(kl / 2)


def test_the_divergence_of_what_both_list_is_a_lower_bound() -> None:
    p = {"a": 0.5, "b": 0.3, "c": 0.2}
    q = {"a": 0.3, "b": 0.3, "d": 0.4}
    assert kl_nats(p, p) == 0.0
    bound = kl_nats(p, q)
    assert bound == pytest.approx(0.5 * log(0.5 / 0.3) + 0.2 * log(0.2 / 0.4))
    whole = 0.5 * log(0.5 / 0.3) + 0.2 * log(0.2 / exp(-20))
    assert 0 < bound < whole


def test_flips_are_counted_both_ways_and_tested_as_pairs() -> None:
    reference = [answer(str(i), "x", i < 8) for i in range(10)]
    other = [answer(str(i), "x", i in (0, 1, 9)) for i in range(10)]
    found = agreement(reference, other)["flips"]
    assert (found["right_to_wrong"], found["wrong_to_right"], found["n"]) == (6, 1, 10)
    assert found["p_value"] == pytest.approx(2 * (1 + 7) / 2**7)
    assert found["difference"] == pytest.approx(-0.5)
    assert found["low"] < -0.5 < found["high"]


def test_what_one_of_both_left_unanswered_is_in_no_pair() -> None:
    found = agreement([answer("1", "x"), answer("2", None, None)], [answer("1", "y"), answer("2", "x")])
    assert (found["paired"], found["unpaired"], found["changed"]) == (1, 1, ["1"])


def test_without_pairs_every_number_is_missing() -> None:
    found = agreement([answer("1", "x")], [answer("2", "x")])
    assert (found["paired"], found["first_difference"], found["logprobs"]) == (0, None, None)
    assert (found["identical"]["share"], found["flips"]["p_value"]) == (None, None)


def test_answers_come_back_from_their_file_as_they_went() -> None:
    chances = {"a": 0.5, "b": 0.25}
    kept = [answer("1", "a", True, (token("a", chances),)), answer("2", None, None)]
    back = from_table(table(kept))
    assert [(one.id, one.text, one.correct) for one in back] == [("1", "a", True), ("2", None, None)]
    assert back[0].tokens[0].top[1][1] == pytest.approx(log(0.25), rel=1e-6)
    assert back[1].tokens == ()
