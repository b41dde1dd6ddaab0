from typing import Any

import orjson
import pytest

from runners.quality.lmeval import LmEval, read
from runners.spec import SpecError

NEWER: dict[str, Any] = {
    "results": {
        "arc_easy": {
            "alias": "arc_easy",
            "acc,none": 0.62,
            "acc_stderr,none": 0.0485,
            "acc_norm,none": 0.58,
            "acc_norm_stderr,none": "N/A",
            "sample_len": 100,
        }
    },
    "group_subtasks": {"arc_easy": []},
    "configs": {"arc_easy": {"task": "arc_easy", "num_fewshot": 0}},
    "versions": {"arc_easy": 1.0},
    "n-shot": {"arc_easy": 5},
    "higher_is_better": {"arc_easy": {"acc": True, "acc_norm": True}},
    "n-samples": {"arc_easy": {"original": 2376, "effective": 100}},
    "config": {"model": "local-completions", "model_args": "model=smol,base_url=http://x,api_key=sk-secret"},
    "model_name": "smol",
    "lm_eval_version": "0.4.9",
    "date": 1764000000.5,
}
OLDER: dict[str, Any] = {
    "results": {"lambada_openai": {"ppl": 38.2, "ppl_stderr": 1.4, "acc": 0.33, "acc_stderr": 0.0066}},
    "versions": {"lambada_openai": 0},
    "config": {"model": "hf-causal", "model_args": "pretrained=gpt2,dtype=float16", "num_fewshot": 0, "limit": None},
}


def read_json(data: Any) -> LmEval:
    return read(orjson.dumps(data))


def test_results_of_newer_versions_are_read() -> None:
    found = read_json(NEWER)
    assert (found.model, found.tool_version, found.date) == ("smol", "0.4.9", 1764000000.5)
    acc, norm = found.scores
    assert (acc.task, acc.metric, acc.filter, acc.value, acc.n, acc.shots) == ("arc_easy", "acc", "none", 0.62, 100, 5)
    assert (acc.low, acc.high) == pytest.approx((0.62 - 1.959964 * 0.0485, 0.62 + 1.959964 * 0.0485))
    # without a standard error, Wilson's interval of 58 of 100
    assert (norm.stderr, norm.low, norm.high) == (
        None,
        pytest.approx(0.4821, abs=1e-4),
        pytest.approx(0.6721, abs=1e-4),
    )


def test_results_of_older_versions_are_read() -> None:
    found = read_json(OLDER)
    ppl, acc = found.scores
    assert (found.model, acc.value, acc.stderr, acc.n, acc.shots) == ("gpt2", 0.33, 0.0066, None, 0)
    assert (ppl.metric, ppl.higher_is_better) == ("ppl", False)
    assert found.headline() == acc


def test_keys_in_the_models_arguments_are_not_kept() -> None:
    assert "sk-secret" not in str(read_json(NEWER).to_json())


def test_the_headline_is_that_of_the_only_group() -> None:
    tasks = {name: {"acc,none": value} for name, value in (("mmlu", 0.5), ("mmlu_law", 0.4), ("mmlu_art", 0.6))}
    found = read_json({"results": tasks, "group_subtasks": {"mmlu": ["mmlu_law", "mmlu_art"]}})
    headline = found.headline()
    assert headline is not None
    assert (headline.task, headline.group) == ("mmlu", True)


def test_several_tasks_without_a_group_have_no_headline() -> None:
    found = read_json({"results": {"a": {"acc,none": 0.5}, "b": {"acc,none": 0.7}}})
    assert found.headline() is None


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"hello", "not JSON"),
        (b"[]", 'no "results"'),
        (b'{"results": {}}', 'no "results"'),
        (b'{"results": {"a": 3}}', "results.a: not an object"),
        (b'{"results": {"a": {"alias": "a", "acc,none": "N/A"}}}', "no task"),
    ],
)
def test_another_file_is_refused_with_what_is_wanted(data: bytes, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        read(data)
