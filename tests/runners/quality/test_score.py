from math import log

import pytest

from runners.load.dialects.base import Token
from runners.load.workloads.base import Message
from runners.quality.score import judge, letter_in, number_in
from runners.quality.tasks import Kind, Match, Step, Take, Task

QUESTION = (Message("user", "?"),)
CHOICES = ("Berlin", "Paris", "Rome")


def exact(*answers: str, **more: object) -> Task:
    return Task("t", Kind.EXACT, QUESTION, answers, **more)  # type: ignore[arg-type]


def numeric(answer: str, **more: object) -> Task:
    return Task("t", Kind.NUMERIC, QUESTION, (answer,), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "right"),
    [("Paris", True), ("paris.", True), (" “PARIS”\n", True), ("Paris, France", False), ("", False)],
)
def test_an_exact_answer_is_the_whole_text_but_for_case_and_punctuation(answer: str, right: bool) -> None:
    assert judge(exact("Paris"), answer).correct is right


@pytest.mark.parametrize(
    ("match", "answer", "right"),
    [
        (Match.ANYWHERE, "It is Paris, of course.", True),
        (Match.ANYWHERE, "Parisian", False),
        (Match.START, "Paris it is", True),
        (Match.START, "It is Paris", False),
    ],
)
def test_an_answer_may_open_the_text_or_occur_in_it_as_a_word(match: Match, answer: str, right: bool) -> None:
    assert judge(exact("Paris", match=match), answer).correct is right


def test_only_the_named_steps_even_out_texts() -> None:
    strict = exact("X7-K2", normalise=(Step.WHITESPACE,))
    assert judge(strict, " X7-K2 \n").correct
    assert not judge(strict, "x7-k2").correct
    assert judge(
        exact("the river", normalise=(Step.CASE, Step.ARTICLES, Step.FIRST_LINE)), "A River\nin spring"
    ).correct


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("3 + 4 = 7.", 3, 7),
        ("1,234,567", 1_234_567, 1_234_567),
        ("-5", -5, -5),
        ("between −2.5 and 1e3", -2.5, 1000),
        ("version1", None, None),
        (".5", 0.5, 0.5),
        ("10-4", 10, 4),
        ("none", None, None),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, first: float | None, last: float | None) -> None:
    assert (number_in(text, Take.FIRST), number_in(text, Take.LAST)) == (first, last)


def test_a_number_is_right_within_its_tolerance() -> None:
    assert judge(numeric("0.3333", tolerance=0.005), "0.33").correct
    assert not judge(numeric("0.3333", tolerance=0.001), "0.33").correct
    assert judge(numeric("1000", rel_tolerance=0.01), "about 1,009").correct
    verdict = judge(numeric("7"), "seven")
    assert (verdict.correct, verdict.found) == (False, None)


def test_hidden_thoughts_are_no_answer() -> None:
    assert judge(numeric("7"), "<think>8 or 9?</think> 7").correct


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        ("B. Paris", "B"),
        ("(C) Rome", "C"),
        ("**A**", "A"),
        ("The answer is b.", "B"),
        ("The capital of France is Paris.", "B"),
        ("A city with many names is C", "C"),
        ("Berlin or Paris", None),
        ("I do not know", None),
        ("", None),
    ],
)
def test_a_letter_is_read_out_of_what_was_answered(text: str, letter: str | None) -> None:
    assert letter_in(text, CHOICES) == letter


def choice(answer: str = "B") -> Task:
    return Task("t", Kind.CHOICE, QUESTION, (answer,), choices=CHOICES)


def test_the_likeliest_letter_counts_where_log_probabilities_are_given() -> None:
    top = (("The", log(0.5)), ("B", log(0.1)), (" B", log(0.1)), ("C", log(0.15)), ("Z", log(0.01)))
    verdict = judge(choice(), "The answer is C", [Token("The", log(0.5), top)])
    assert (verdict.found, verdict.by, verdict.correct) == ("B", "logprob", True)


def test_without_a_letter_among_the_likeliest_the_answer_itself_counts() -> None:
    verdict = judge(choice(), "Rome", [Token("Rome", log(0.9), (("Rome", log(0.9)), ("Paris", log(0.1))))])
    assert (verdict.found, verdict.by, verdict.correct) == ("C", "letter", False)


def test_the_first_token_of_hidden_thoughts_is_not_where_the_answer_begins() -> None:
    thinking = [Token("Hm", log(0.5), (("A", log(0.4)), ("Hm", log(0.5))))]
    assert judge(choice(), "B", thinking).by == "letter"
