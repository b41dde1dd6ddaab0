"""Conversations and tasks: the history holds what the model said, and a turn waits for the answer before it."""

import json

import pytest

from runners.load.workloads import Message, Said, read
from runners.sources import Agents, Conversations, Length, Shape

S = 1_000_000_000


def said(turn, *, ok=True, text="an answer", output_tokens=2, due_ns=0, end_ns=S):
    return Said(ok, text, turn.input_tokens, output_tokens, due_ns, end_ns)


def test_each_turn_holds_the_whole_history_with_the_models_own_answers(context):
    work = read(Conversations(turns=3)).begin(context(input_tokens=5))
    first = work.start(0)
    second, _ = work.follow(first, said(first, text="alpha"))
    third, _ = work.follow(second, said(second, text="beta"))
    assert [message.role for message in third.messages] == ["user", "assistant", "user", "assistant", "user"]
    assert third.messages[:3] == second.messages
    assert third.messages[3] == Message("assistant", "beta")
    assert work.follow(third, said(third)) is None


def test_the_length_of_a_turn_is_the_history_as_counted_by_the_server_and_its_own_question(context):
    work = read(Conversations(turns=2)).begin(context(input_tokens=5))
    first = work.start(0)
    second, _ = work.follow(first, said(first, output_tokens=20))
    assert first.input_tokens == 30 + 5
    assert second.reusable_tokens == 35 + 20
    assert second.input_tokens == 35 + 20 + 9 + 5


@pytest.mark.parametrize(
    ("think_s", "every_s", "answered_s", "due_s"), [(0.0, 0.5, 0.1, 0.5), (0.0, 0.5, 0.7, 0.7), (1.0, 0.5, 0.7, 1.7)]
)
def test_a_turn_is_due_at_the_later_of_its_place_in_the_schedule_and_the_end_of_thinking(
    context, think_s, every_s, answered_s, due_s
):
    work = read(Conversations(turns=2, think_s=think_s, every_s=every_s)).begin(context())
    first = work.start(0)
    _, due_ns = work.follow(first, said(first, due_ns=10 * S, end_ns=10 * S + round(answered_s * S)))
    assert due_ns == 10 * S + round(due_s * S)


def test_think_times_can_vary_around_their_mean(context):
    work = read(Conversations(turns=2, think_s=2.0, think_cv=1.0)).begin(context())
    waits_s = []
    for index in range(2000):
        first = work.start(index)
        waits_s.append((work.follow(first, said(first))[1] - S) / S)
    assert sum(waits_s) / 2000 == pytest.approx(2.0, rel=0.1)
    assert min(waits_s) < 0.1


def test_a_failed_answer_ends_the_conversation(context):
    work = read(Conversations(turns=3)).begin(context())
    first = work.start(0)
    assert work.follow(first, said(first, ok=False)) is None


def test_a_system_prompt_opens_all_conversations_alike_and_is_reusable_from_the_second_on(context):
    work = read(Conversations(system_tokens=50)).begin(context(input_tokens=5, warms_up=True))
    warm, again = work.start(0), work.start(1)
    assert warm.messages[0] == again.messages[0]
    assert len(warm.messages[0].content.split()) == 50
    assert (warm.reusable_tokens, again.reusable_tokens, again.input_tokens) == (0, 50, 30 + 50 + 5)
    assert work.renew()
    measured = work.start(2)
    assert measured.messages[0] != warm.messages[0]
    assert measured.reusable_tokens == 0


def test_recorded_questions_are_asked_in_their_order_at_most_as_many_as_there_are(context, tmp_path):
    chat = [{"from": "human", "value": "one?"}, {"from": "gpt", "value": "x"}, {"from": "human", "value": "two? then"}]
    (tmp_path / "chats").write_text(json.dumps({"conversations": chat}))
    work = read(Conversations(turns=5, file=str(tmp_path / "chats"))).begin(context())
    first = work.start(0)
    second, _ = work.follow(first, said(first, text="mine"))
    assert [m.content for m in second.messages] == ["one?", "mine", "two? then"]
    assert second.input_tokens == first.input_tokens + 2 + 9 + 2
    assert first.chain.turns == 2


def test_the_number_of_turns_can_vary(context):
    work = read(Conversations(turns=Length(Shape.UNIFORM, low=1, high=4))).begin(context())
    assert {work.start(i).chain.turns for i in range(100)} == {1, 2, 3, 4}


def test_a_task_grows_by_its_answers_and_by_what_its_tools_return(context):
    work = read(Agents(calls=3, result_tokens=40, tool_s=0.25, system_tokens=60)).begin(context(input_tokens=10))
    first = work.start(0)
    second, due_ns = work.follow(first, said(first))
    assert due_ns == S + S // 4
    assert [len(m.content.split()) for m in second.messages] == [60, 10, 2, 40]
    third, _ = work.follow(second, said(second))
    assert third.input_tokens == second.input_tokens + 2 + 9 + 40
    assert work.follow(third, said(third)) is None
