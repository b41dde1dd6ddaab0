"""Every flag that a row can carry has words for people, and every word is of a flag that exists."""

import re
from pathlib import Path

from runners.load.flags import FLAGS, flag_reasons

CODE = "\n".join(
    path.read_text()
    for path in (Path(__file__).resolve().parents[3] / "runners/load").glob("*.py")
    if path.name != "flags.py"
)


def test_flags_and_their_words_are_the_same_set():
    raised = set(re.findall(r'\.flag\("(\w+)"', CODE))
    assert raised <= set(FLAGS)
    assert all(f'"{name}"' in CODE for name in FLAGS)


def test_a_stage_tells_how_many_answers_were_not_streamed_and_not_every_small_oddity():
    reasons = flag_reasons({"not_streaming": 3, "compressed": 9}, 12)
    assert [item["code"] for item in reasons] == ["not_streaming"]
    assert reasons[0]["text"].startswith("3 of 12 answers: the answer came in one piece")
