"""Published numbers against the calculators."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from django.core.management import call_command

from observatory.theory import proof


@pytest.mark.parametrize("case", proof.cases(), ids=lambda case: case.id)
def test_a_published_number_is_met(case):
    found = proof.check(case)
    assert found.passed, (case.expected, found.got)


def test_every_case_has_an_id_of_its_own_and_a_source():
    ids = [case.id for case in proof.cases()]
    assert len(set(ids)) == len(ids) >= 80
    assert all(case.source and case.calculator and case.output for case in proof.cases())


def case(name):
    return next(case for case in proof.cases() if case.id == name)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("google-total", {"expected": "0.26"}),
        ("price-basic", {"expected": "0.0105001"}),
        ("counter-reset", {"expected": "counter_stale"}),
        ("price-negative", {"expected": "0.1"}),
        ("price-basic", {"expected": "refused"}),
        ("price-basic", {"expected": ""}),
        ("hermes-100848-unknown", {"expected": "0"}),
    ],
)
def test_a_number_that_is_not_met_is_red(name, changes):
    assert not proof.check(replace(case(name), **changes)).passed


def test_the_difference_is_told():
    assert proof.check(replace(case("counter-basic"), expected="430")).difference == Decimal("0.113")


def test_the_command_ends_well_when_all_is_green(capsys):
    call_command("selfproof")
    out = capsys.readouterr().out
    assert "green  google-pue: 0.2398 Wh" in out
    assert out.rstrip().endswith("green, 0 red")


def test_the_command_ends_with_1_and_shows_what_is_red(capsys, monkeypatch):
    wrong = replace(case("google-total"), expected="0.5")
    found = (wrong, case("price-basic"))
    monkeypatch.setattr(proof, "cases", lambda: found)
    with pytest.raises(SystemExit) as ended:
        call_command("selfproof", red=True)
    assert ended.value.code == 1
    assert "red    google-total: expected 0.5 Wh, got 0.2398, off by -0.26" in capsys.readouterr().out


def test_as_json_every_case_says_what_was_expected_and_what_came_out(capsys):
    call_command("selfproof", json=True)
    rows = json.loads(capsys.readouterr().out)
    assert {row["passed"] for row in rows} == {True}
    assert next(row for row in rows if row["id"] == "hermes-100848-unknown")["got"] is None
