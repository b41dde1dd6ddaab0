from math import inf, isnan

import pytest

from runners.server.exposition import ExpositionError, Sample, labels_of, samples


def read(page: str, *wanted: str) -> list[Sample]:
    return list(samples(page, set(wanted)))


def test_a_sample_is_its_name_its_labels_as_written_and_its_value():
    page = '# TYPE a gauge\na 1\na{x="1",y="2"} 2.5e3\nb 7\na{} .5\r\na{x="1",} +Inf 1700000000000\n'
    assert read(page, "a") == [
        Sample("a", "", 1.0),
        Sample("a", 'x="1",y="2"', 2500.0),
        Sample("a", "", 0.5),
        Sample("a", 'x="1"', inf, 1_700_000_000_000),
    ]


def test_label_values_may_hold_braces_commas_and_escapes():
    [sample] = read('a{x="}, {",y="say \\"hi\\"\\n\\\\"} 1', "a")
    assert labels_of(sample.labels) == {"x": "}, {", "y": 'say "hi"\n\\'}


def test_not_a_number_is_read_as_such():
    [sample] = read("a NaN", "a")
    assert isnan(sample.value)


@pytest.mark.parametrize(
    "line",
    [
        "a", "a ", "a x", "a 1_000", "a 0x1", "a infinity", 'a{x="1" 2', 'a{x=1} 2', 'a{x="1"}', "a{x=\"\\q\"} 1",
        "a 1 2 3", 'a{x="1"y="2"} 1',
    ],
)  # fmt: skip
def test_a_line_that_was_asked_for_and_cannot_be_read_is_an_error_with_its_number(line):
    if line == "a":
        assert read(line, "a") == []  # a name alone is no sample, and ends no page
        return
    with pytest.raises(ExpositionError, match="line 2"):
        read(f"# comment\n{line}", "a")


def test_what_was_not_asked_for_may_be_written_wrongly():
    assert read('broken{x="1 2\nb\x00d 1\na 4\n<html>', "a") == [Sample("a", "", 4.0)]
