"""Recorded traces keep their times, lengths and what their prompts shared."""

import numpy as np
import pytest

from runners.load.workloads import read
from runners.sources import Trace, TraceForm
from runners.strict_json import SpecError

MOONCAKE = """{"timestamp": 2000, "input_length": 90, "output_length": 5, "hash_ids": [7, 8, 9]}
{"timestamp": 1000, "input_length": 80, "output_length": 4, "hash_ids": [7, 8]}
{"timestamp": 4500, "input_length": 35, "output_length": 6, "hash_ids": [3]}
{"timestamp": 4600, "input_length": 35, "output_length": 0, "hash_ids": [3]}
"""
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,GPT-4,1087,230,1317,API log
47,ChatGPT,12,0,12,Conversation log
"""
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:01+00:00,2399,6
"""


@pytest.fixture
def recorded(tmp_path):
    def write(text, form, **more):
        (tmp_path / "trace").write_text(text)
        return read(Trace(str(tmp_path / "trace"), form, **more))

    return write


@pytest.mark.parametrize(
    ("text", "form", "at_s", "lengths", "skipped"),
    [
        (MOONCAKE, TraceForm.MOONCAKE, [0, 1, 3.5], [(80, 4), (90, 5), (35, 6)], 1),
        (BURSTGPT, TraceForm.BURSTGPT, [0, 40], [(472, 18), (1087, 230)], 1),
        (AZURE, TraceForm.AZURE, [0, 0.052], [(4808, 10), (3180, 8)], 0),
        (AZURE_2024, TraceForm.AZURE, [0, 0.99007], [(2162, 5), (2399, 6)], 0),
    ],
)
def test_every_form_gives_times_from_zero_and_lengths_and_tells_what_it_left_out(
    recorded, text, form, at_s, lengths, skipped
):
    material = recorded(text, form)
    entries = material.recording.entries
    assert [entry.at_s for entry in entries] == pytest.approx(at_s, abs=1e-6)
    assert [(entry.input_tokens, entry.output_tokens) for entry in entries] == lengths
    assert material.recording.skipped == skipped
    assert ("left out" in material.words) is bool(skipped)


def test_a_speed_of_two_halves_every_time(recorded):
    recording = recorded(MOONCAKE, TraceForm.MOONCAKE).recording
    assert np.diff(recording.offsets_ns(2.0)).tolist() == [500_000_000, 1_250_000_000]


def test_equal_hashes_are_equal_text_and_what_they_share_is_reusable(recorded, context):
    work = recorded(MOONCAKE, TraceForm.MOONCAKE, block_tokens=20).begin(context())
    turns = [work.start(i) for i in range(3)]
    first, second, third = (turn.messages[0].content.split() for turn in turns)
    assert [len(words) + 30 for words in (first, second, third)] == [80, 90, 35]
    assert second[:40] == first[:40]
    assert [turn.reusable_tokens for turn in turns] == [0, 40, 0]
    assert third[0:4] != first[0:4]


def test_without_hashes_no_prompt_is_like_another(recorded, context):
    work = recorded(BURSTGPT, TraceForm.BURSTGPT).begin(context())
    first, second = (work.start(i) for i in range(2))
    assert first.messages[0].content.split()[:4] != second.messages[0].content.split()[:4]
    assert (second.input_tokens, second.output_tokens, second.reusable_tokens) == (1087, 230, 0)


@pytest.mark.parametrize(
    ("text", "form", "words"),
    [
        ('{"timestamp": 1}', TraceForm.MOONCAKE, "line 1"),
        ("[1, 2]", TraceForm.MOONCAKE, "line 1"),
        ("", TraceForm.MOONCAKE, "holds no request"),
        (AZURE, TraceForm.BURSTGPT, "no column 'Timestamp'"),
        (AZURE + "yesterday,1,2\n", TraceForm.AZURE, "line 4"),
        (BURSTGPT + "9,x,many,2\n", TraceForm.BURSTGPT, "line 5"),
    ],
)
def test_a_file_in_another_form_is_refused_with_what_was_expected(recorded, text, form, words):
    with pytest.raises(SpecError, match=words):
        recorded(text, form)
