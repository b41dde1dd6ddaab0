"""The frame: inputs from text, bounds, refusals, and what every calculator must keep."""

from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from observatory.theory.calculator import Calculator, Fault, Refused, place, refuse, spread
from observatory.theory.fields import (
    Entry,
    choice,
    finite,
    number,
    plain,
    result,
    series,
    switch,
    text,
    worded,
    written,
)
from observatory.theory.registry import BY_NAME, CALCULATORS

NAMES = sorted(BY_NAME)
HEAVY = {"quantization", "moe"}


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inputs:
    length_m: float = number(2.0, "m", "Length", "", low=0.5, high=100)
    count: int = number(3, "", "Count", "", low=0, high=1000)
    price_usd: Decimal | None = number(None, "$", "Price", "", low=0, high=10)
    colour: Colour = choice(Colour.RED, "Colour", "")
    wet: bool = switch(False, "Wet", "")
    samples_w: tuple[float, ...] = series((1.0, 2.0), "W", "Samples", "", low=0, high=5)
    note: str = text("", "Note", "", longest=5)


@dataclass(frozen=True)
class Outputs:
    total: float | None = result("m", "Total")


def compute(inputs: Inputs) -> Outputs:
    if inputs.count == 7:
        raise refuse("count", "Seven is refused.", "Give another.")
    if inputs.count == 8:
        return Outputs(float("nan"))
    return Outputs(inputs.length_m / (inputs.count - 9))


TOY = Calculator(
    name="toy",
    title="Toy",
    subject="",
    summary="",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(),
    source="",
)


def refusal(given: dict[str, str]) -> dict[str, str]:
    with pytest.raises(Refused) as caught:
        TOY.answer(given)
    return {fault.field: f"{fault.problem} {fault.fix}" for fault in caught.value.faults}


def test_text_becomes_the_kind_that_each_input_declares() -> None:
    read = TOY.read(
        {
            "length_m": "1e1",
            "count": "4",
            "price_usd": "0.10",
            "colour": "blue",
            "wet": "yes",
            "samples_w": "1, 2.5",
            "note": " hi ",
        }
    )
    assert read == Inputs(10.0, 4, Decimal("0.10"), Colour.BLUE, True, (1.0, 2.5), "hi")
    assert TOY.read({"price_usd": ""}).price_usd is None


def test_what_is_written_is_read_back() -> None:
    inputs = Inputs(2.5, 4, Decimal("0.10"), Colour.BLUE, True, (1.0, 2.5), "hi")
    assert TOY.read({entry.name: written(getattr(inputs, entry.name)) for entry in TOY.entries}) == inputs


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("length_m", "0.1", "Give a number from 0.5 to 100 m."),
        ("length_m", "101", "101 is out of bounds."),
        ("length_m", "inf", "not a number"),
        ("length_m", "1_0", "not a number"),
        ("length_m", "١", "not a number"),
        ("length_m", "1e9999", "too large"),
        ("length_m", "", "Nothing is not a number."),
        ("count", "1.5", "Give a whole number from 0 to 1000."),
        ("price_usd", "-1", "Give a number from 0 to 10 $."),
        ("colour", "green", "Choose one of red, blue."),
        ("wet", "maybe", "Write yes or no."),
        ("samples_w", "1,x", "Give numbers with commas between"),
        ("samples_w", "1,9", "9 is out of bounds."),
        ("samples_w", ",".join(["1"] * 10_001), "Give at most 10000."),
        ("note", "too long", "Give at most 5 characters."),
        ("cuont", "1", "Write count."),
        ("zzz", "1", "Known are length_m, count"),
        ("count", "7", "Seven is refused. Give another."),
    ],
)
def test_a_bad_input_is_refused_with_what_to_write(field: str, value: str, words: str) -> None:
    assert words in refusal({field: value})[field]


def test_all_faults_are_told_at_once() -> None:
    assert list(refusal({"count": "x", "wet": "x", "zzz": "x"})) == ["zzz", "count", "wet"]


@pytest.mark.parametrize("count", ["8", "9"])
def test_a_result_that_is_no_finite_number_is_refused(count: str) -> None:
    assert refusal({"count": count}) == {
        "": "These inputs together give no finite number. Bring the extreme ones nearer."
    }


def test_inputs_made_by_code_are_checked_too() -> None:
    with pytest.raises(Refused, match="length_m"):
        TOY.run(Inputs(length_m=float("nan")))


@pytest.mark.parametrize(
    ("value", "decimals", "shown"),
    [
        (14142.857, 0, "14\u2009143"),
        (95.71, 0, "96"),
        (0.43, 0, "0.430"),
        (0.08177, 4, "0.0818"),
        (0.0081078, 4, "0.0081"),
        (2.176, 2, "2.18"),
        (32768, None, "32\u2009768"),
        (123456.0, None, "123\u2009000"),
        (None, 2, "–"),
        (True, None, "yes"),
    ],
)
def test_numbers_are_shown_with_the_digits_that_serve(value: Any, decimals: int | None, shown: str) -> None:
    assert worded(value, result(decimals=decimals).metadata["about"]) == shown


def any_value(entry: Entry) -> st.SearchStrategy[Any]:
    about = entry.about
    if entry.choices:
        return st.sampled_from(list(entry.kind))
    if entry.kind is bool:
        return st.booleans()
    if entry.kind is str or entry.is_series:
        return st.just(entry.default)
    if entry.kind is int:
        found: st.SearchStrategy[Any] = st.integers(int(about.low or 0), int(about.high or 0)) | st.sampled_from(
            [int(about.low or 0), int(about.high or 0)]
        )
    else:
        found = st.floats(about.low, about.high) | st.sampled_from([about.low, about.high])
        found = found.map(entry.kind)
    return found | st.none() if entry.optional else found


@pytest.mark.parametrize("name", [name for name in NAMES if name not in HEAVY])
@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_is_allowed_gives_finite_numbers_or_a_refusal_that_names_a_fix(name: str, data: Any) -> None:
    calculator = BY_NAME[name]
    drawn = {entry.name: data.draw(any_value(entry)) for entry in calculator.entries}
    faults: tuple[Fault, ...] = ()
    outputs = None
    try:
        outputs = calculator.run(replace(calculator.inputs(), **drawn))
    except Refused as error:
        faults = error.faults
    assert faults or finite(plain(outputs))
    assert all(fault.problem and fault.fix for fault in faults)


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_within_their_bounds_and_every_input_and_output_has_a_label(name: str) -> None:
    calculator = BY_NAME[name]
    assert calculator.faults(calculator.inputs()) == []
    assert all(entry.about.label for entry in calculator.entries)
    assert all(column.about.label for column in calculator.columns)
    assert calculator.formula
    assert calculator.source
    assert calculator.summary


@pytest.mark.parametrize("name", NAMES)
def test_sliders_reach_from_the_lowest_to_the_highest_value(name: str) -> None:
    for entry in BY_NAME[name].entries:
        if entry.is_number:
            values = spread(entry, 11)
            assert (values[0], values[-1]) == (entry.about.low, entry.about.high)
            assert values == sorted(values)
            assert (place(entry, str(values[0])), place(entry, str(values[-1]))) == (0, 1000)


def test_names_of_calculators_are_unique() -> None:
    assert len(BY_NAME) == len(CALCULATORS)
