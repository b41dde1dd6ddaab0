"""The reference tables, digit by digit, as they are shown."""

import numpy as np
import pytest

from observatory.theory.fields import columns, worded
from observatory.theory.registry import BY_NAME


def shown(name: str, table: str, **given: str) -> list[list[str]]:
    calculator = BY_NAME[name]
    outputs = calculator.run(calculator.read(given))
    kinds = columns(next(column.row for column in calculator.columns if column.name == table))
    rows = getattr(outputs, table)
    return [[worded(getattr(row, kind.name), kind.about).replace("\u2009", "") for kind in kinds] for row in rows]


def test_decode_limit() -> None:
    assert [row[:5] for row in shown("decode-limit", "table")] == [
        ["16-bit", "1", "96", "96", "memory"],
        ["16-bit", "32", "96", "3063", "memory"],
        ["16-bit", "256", "55", "14143", "compute"],
        ["8-bit", "1", "191", "191", "memory"],
        ["8-bit", "32", "191", "6126", "memory"],
        ["8-bit", "256", "55", "14143", "compute"],
        ["4-bit", "1", "383", "383", "memory"],
        ["4-bit", "32", "383", "12251", "memory"],
        ["4-bit", "256", "55", "14143", "compute"],
    ]


def test_decode_limit_with_all_terms_switched_off_is_the_same() -> None:
    for row in shown("decode-limit", "table", context="0", link_gb_s="", launch_us="0"):
        assert row[5:] == row[2:5]


def test_speculative_decoding() -> None:
    assert shown("speculative", "table") == [
        ["0.60", "3", "2.18", "1.89"],
        ["0.60", "5", "2.38", "1.91"],
        ["0.80", "3", "2.95", "2.57"],
        ["0.80", "5", "3.69", "2.95"],
        ["0.90", "3", "3.44", "2.99"],
        ["0.90", "5", "4.69", "3.75"],
    ]


def test_quantization() -> None:
    found = {row[0]: row[1:3] for row in shown("quantization", "table")}
    assert found["int8 per-tensor"] == ["0.0818", "50"]
    assert found["int8 per-channel"] == ["0.0081", "50"]
    assert found["int4 per-channel"] == ["0.1596", "25"]
    assert found["int4 groups of 64"] == ["0.1187", "25"]


@pytest.mark.parametrize("form", ["int4", "fp4-e2m1"])
@pytest.mark.parametrize("scope", ["per-channel", "per-group"])
def test_gptq_and_awq_beat_plain_rounding_at_4_bits_on_data_that_they_saw_and_on_data_that_they_did_not(
    form: str, scope: str
) -> None:
    rounding, gptq, awq = (
        np.array([float(number) for number in row[1:]])
        for row in shown("quantization", "methods", form=form, scope=scope)
    )
    assert (gptq < rounding).all()
    assert (awq < rounding).all()
