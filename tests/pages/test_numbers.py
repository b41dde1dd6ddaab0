from datetime import UTC, datetime

import pytest
import time_machine

from observatory.pages.templatetags.numbers import duration, metric, moment, quantity, status


def test_a_number_has_three_digits_its_unit_and_its_n() -> None:
    assert metric(123.456, "ttft_ms", "measured", 480) == (
        '<span class="number measured" title="n = 480" data-n="480">123<span class="unit"> ms</span></span>'
    )
    assert "1.23<span" in metric(1234.5, "ttft_ms")
    assert "12\u2009300" in metric(12345.0, "output_tokens_per_s")


def test_a_modelled_number_is_marked_for_eyes_and_ears() -> None:
    shown = metric(0.5, "wh_per_query", "modelled", 7)
    assert "~0.500" in shown
    assert 'title="modelled, n = 7"' in shown
    assert '<span class="sr"> (modelled)</span>' in shown
    assert "?0.500" in metric(0.5, "wh_per_query", "assumed")


def test_a_missing_number_is_a_dash_with_its_reason() -> None:
    shown = metric(None, "ttft_ms", n=12, statistic="p99")
    assert 'title="too few samples for p99: 12, at least 459 are needed"' in shown
    assert '<span aria-hidden="true">–</span>' in shown
    assert "the &lt;reason&gt;" in metric(None, "ttft_ms", reason="the <reason>")
    assert "not measured" in metric(None, "ttft_ms")


def test_counts_are_exact_while_they_are_short() -> None:
    assert ">7<" in quantity(7, "req")
    assert "61\u2009400" in quantity(61_440, "")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "–"), (0, "0 s"), (59.4, "59 s"), (60, "1 min"), (200, "3 min 20 s"), (3600, "1 h"), (7500, "2 h 5 min")],
)
def test_durations_are_said_as_people_say_them(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


@time_machine.travel(datetime(2026, 11, 12, 12, 0, tzinfo=UTC))
@pytest.mark.parametrize(
    ("time", "shown"),
    [
        (datetime(2026, 11, 12, 9, 5, tzinfo=UTC), ">09:05<"),
        (datetime(2026, 11, 2, 9, 5, tzinfo=UTC), ">2 Nov 09:05<"),
        (datetime(2025, 11, 12, 9, 5, tzinfo=UTC), ">12 Nov 2025 09:05<"),
        (None, "–"),
    ],
)
def test_times_are_as_short_as_they_can_be(time: datetime | None, shown: str) -> None:
    assert shown in moment(time)


def test_a_finished_run_is_valid_or_not() -> None:
    assert "badge ok" in status("finished", True)
    assert "not valid" in status("finished", False)
    assert "badge fail" in status("lost")
