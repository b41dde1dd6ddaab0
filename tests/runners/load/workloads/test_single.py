"""Workloads whose turns do not wait for each other: made up, out of files, with shared beginnings."""

import json
from collections import Counter

import pytest

from runners.load.workloads import Message, read
from runners.sources import Length, Prefixes, PromptFile, Shape, ShareGpt, Synthetic
from runners.strict_json import SpecError


def prompt(turn):
    return turn.messages[-1].content


def test_made_up_prompts_have_the_lengths_that_are_asked_for_template_included(context):
    work = read(Synthetic()).begin(context(input_tokens=Length(Shape.UNIFORM, low=40, high=90)))
    turns = [work.start(i) for i in range(500)]
    assert {turn.input_tokens for turn in turns} == set(range(40, 91))
    assert all(len(prompt(turn).split()) + 30 == turn.input_tokens for turn in turns)
    assert len({prompt(turn) for turn in turns}) == 500


def test_the_same_seed_and_salt_give_the_same_turns_and_another_stage_others(context):
    first, again, other = (read(Synthetic()).begin(context(salt=salt)).start(7) for salt in ("a", "a", "b"))
    assert first == again
    assert prompt(first).split()[:4] != prompt(other).split()[:4]


@pytest.mark.parametrize("source", [Synthetic(), Prefixes(groups=4, prefix_tokens=20)])
def test_runs_of_one_seed_ask_for_the_same_lengths_and_groups_in_other_words(context, source):
    lengths = {"input_tokens": Length(Shape.UNIFORM, low=60, high=90), "output_tokens": Length(Shape.UNIFORM, high=50)}

    def asked(**more):
        work = read(source).begin(context(**lengths, **more))
        return [work.start(i) for i in range(30)]

    def work(turns):
        return [(turn.input_tokens, turn.output_tokens, turn.group) for turn in turns]

    first, other, another_seed = asked(salt="a"), asked(salt="b"), asked(salt="a", seed=1)
    assert work(first) == work(other) != work(another_seed)
    assert not {prompt(turn) for turn in first} & {prompt(turn) for turn in other}


# shared beginnings


def test_prompts_of_a_group_share_the_prefix_and_nothing_more(context):
    work = read(Prefixes(groups=4, prefix_tokens=50)).begin(context())
    turns = [work.start(i) for i in range(300)]
    beginnings = {}
    for turn in turns:
        words = prompt(turn).split()
        assert len(words) == 70
        beginnings.setdefault(turn.group, set()).add(" ".join(words[:50]))
    assert sorted(beginnings) == [0, 1, 2, 3]
    assert all(len(found) == 1 for found in beginnings.values())
    assert len({prompt(turn) for turn in turns}) == 300


@pytest.mark.parametrize(("zipf", "first", "last"), [(0.0, 0.25, 0.25), (1.0, 0.48, 0.12)])
def test_groups_are_drawn_by_their_rank(context, zipf, first, last):
    work = read(Prefixes(groups=4, prefix_tokens=50, zipf=zipf)).begin(context())
    groups = Counter(work.start(i).group for i in range(4000))
    assert groups[0] / 4000 == pytest.approx(first, abs=0.03)
    assert groups[3] / 4000 == pytest.approx(last, abs=0.03)


def test_only_a_prefix_that_was_sent_before_counts_as_reusable(context):
    work = read(Prefixes(groups=3, prefix_tokens=50)).begin(context())
    turns = [work.start(i) for i in range(60)]
    assert sum(turn.reusable_tokens == 0 for turn in turns) == 3
    assert {turn.reusable_tokens for turn in turns} == {0, 50}


def test_measured_prefixes_are_others_than_those_of_the_warmup(context):
    work = read(Prefixes(groups=2, prefix_tokens=50)).begin(context(warms_up=True))
    warm = {" ".join(prompt(work.start(i)).split()[:50]) for i in range(30)}
    assert work.renew()
    measured = [work.start(i) for i in range(30, 60)]
    assert not warm & {" ".join(prompt(turn).split()[:50]) for turn in measured}
    assert measured[0].reusable_tokens == 0


# files


@pytest.fixture
def written(tmp_path):
    def write(*items, whole=False):
        path = tmp_path / "file"
        path.write_text(json.dumps(items) if whole else "\n".join(json.dumps(item) for item in items))
        return str(path)

    return write


def test_prompts_and_chats_of_a_file_are_sent_as_they_stand(context, written):
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "why?"}]
    file = written("one two", {"prompt": "three", "output_tokens": 5}, {"messages": chat})
    work = read(PromptFile(file)).begin(context())
    first, second, third = (work.start(i) for i in range(3))
    assert first.messages == (Message("user", "one two"),)
    assert (first.input_tokens, first.output_tokens) == (32, 16)
    assert (prompt(second), second.output_tokens) == ("three", 5)
    assert third.messages == (Message("system", "be brief"), Message("user", "why?"))
    assert third.input_tokens is None  # the template of such a chat is not known


def test_stages_share_no_line_until_the_file_is_used_up(context, written):
    file = written(*(f"prompt {i}" for i in range(6)))
    stages = [read(PromptFile(file)).begin(context(stage=stage, stages=2)) for stage in range(2)]
    sent = [{prompt(work.start(i)) for i in range(3)} for work in stages]
    assert not sent[0] & sent[1]
    assert prompt(stages[0].start(3)) == "prompt 0"


def test_without_a_tokenizer_the_length_of_a_files_prompt_is_not_claimed(context, written):
    assert read(PromptFile(written("one"))).begin(context(count_tokens=None)).start(0).input_tokens is None


@pytest.mark.parametrize("whole", [True, False])
def test_share_gpt_files_give_first_questions_and_the_length_of_their_answers(context, written, whole):
    file = written(
        {"conversations": [{"from": "human", "value": "q one"}, {"from": "gpt", "value": "a b c d e"}]},
        {"conversations": [{"from": "gpt", "value": "hello"}]},
        {"conversations": [{"from": "system", "value": "s"}, {"from": "user", "value": "q two"}]},
        whole=whole,
    )
    work = read(ShareGpt(file)).begin(context())
    turns = [work.start(i) for i in range(2)]
    assert [(prompt(turn), turn.output_tokens) for turn in turns] == [("q one", 5), ("q two", 16)]
    assert read(ShareGpt(file)).begin(context(count_tokens=None)).start(0).output_tokens == 16


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (PromptFile, "", "is empty"),
        (PromptFile, '"a"\n{', "line 2: not JSON"),
        (PromptFile, '{"question": "a"}', 'line 1: give "prompt"'),
        (PromptFile, '{"prompt": ""}', "line 1: the prompt must be a text"),
        (PromptFile, '{"prompt": "a", "output_tokens": 0}', "line 1: output_tokens"),
        (PromptFile, '{"messages": [{"role": "owl", "content": "hoo"}]}', 'line 1: a message needs a "role"'),
        (PromptFile, "[1]", 'entry 1: give "prompt"'),
        (ShareGpt, '{"conversations": [{"from": "gpt", "value": "x"}]}', "holds no question"),
        (ShareGpt, '{"conversations": []}', "line 1"),
    ],
)
def test_a_file_in_another_form_is_refused_with_the_line_and_what_was_expected(tmp_path, kind, text, words):
    (tmp_path / "file").write_text(text)
    with pytest.raises(SpecError, match=words):
        read(kind(str(tmp_path / "file")))


def test_a_file_that_is_not_there_is_refused():
    with pytest.raises(SpecError, match=r"workload\.source\.file.*No such file"):
        read(PromptFile("/nowhere"))
