"""Conversations and agents: chains of turns whose history holds the model's own answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from runners.load.words import Words
from runners.load.workloads.base import Chain, Context, Message, Said, Turn
from runners.load.workloads.files import read_chats
from runners.load.workloads.lengths import Lengths
from runners.sources import Agents, Conversations, Tokens

Questions = list[list[str]]


@dataclass(frozen=True)
class Manner:
    """How chains go on: how long the first question and those that follow are, and when a turn is due."""

    turns: Tokens
    first_tokens: Tokens
    next_tokens: Tokens
    wait_s: float
    wait_cv: float
    every_s: float
    system_tokens: int


class DialogueTurns:
    """``recorded`` questions take the place of made-up ones; each stage takes its own."""

    def __init__(self, manner: Manner, recorded: Questions, context: Context) -> None:
        self._manner = manner
        self._recorded = recorded
        self._context = context
        self._fit = context.fit
        self._turns, self._output = Lengths(manner.turns), Lengths(context.output_tokens)
        self._first, self._next = Lengths(manner.first_tokens), Lengths(manner.next_tokens)
        self._begin(f"{context.salt}/warmup" if context.warms_up else context.salt)

    def _begin(self, salt: str) -> None:
        self._words = Words(self._context.seed, salt, self._fit.vocabulary)
        self._system_seen = False

    def start(self, index: int) -> Turn:
        turns = self._turns.draw(self._words, index)
        if self._recorded:
            turns = min(turns, len(self._questions(index)))
        question, tokens = self._question(index, 0)
        manner, messages, reusable = self._manner, [Message("user", question)], 0
        if manner.system_tokens:
            system = self._words.text("system", self._fit.words_of(manner.system_tokens))
            messages.insert(0, Message("system", system))
            reusable, self._system_seen = (manner.system_tokens if self._system_seen else 0), True
        asked = None
        if tokens is not None and self._fit.checked:
            asked = round(self._fit.overhead_tokens) + manner.system_tokens + tokens
        return Turn(tuple(messages), asked, self._draw_output(index, 0), reusable, chain=Chain(index, turns))

    def follow(self, turn: Turn, said: Said) -> tuple[Turn, int] | None:
        chain = turn.chain
        if chain is None or not said.ok or turn.position + 1 >= chain.turns:
            return None
        if turn.position == 0:
            chain.began_ns = said.due_ns
        position = turn.position + 1
        question, tokens = self._question(chain.number, position)
        known = None
        if said.input_tokens is not None and said.output_tokens is not None:
            known = said.input_tokens + said.output_tokens
        asked = None
        if known is not None and tokens is not None and self._fit.turn_tokens is not None:
            asked = known + round(self._fit.turn_tokens) + tokens
        messages = (*turn.messages, Message("assistant", said.text), Message("user", question))
        output = self._draw_output(chain.number, position)
        following = Turn(messages, asked, output, known or 0, chain=chain, position=position)
        return following, self._due_ns(chain, position, said.end_ns)

    def renew(self) -> bool:
        """The measured conversations are others than those of the warm-up, and their system prompt is too."""
        self._begin(self._context.salt)
        return True

    def _due_ns(self, chain: Chain, position: int, answered_ns: int) -> int:
        manner, wait_s = self._manner, self._manner.wait_s
        if manner.wait_cv and wait_s:
            draws = self._words.draws(f"{chain.number}/{position}/wait")
            wait_s = draws.gammavariate(1 / manner.wait_cv**2, manner.wait_cv**2 * wait_s)
        scheduled_ns = chain.began_ns + round(position * manner.every_s * 1e9)
        return max(scheduled_ns, answered_ns + round(wait_s * 1e9))

    def _questions(self, index: int) -> Sequence[str]:
        context = self._context
        return self._recorded[(index * context.stages + context.stage) % len(self._recorded)]

    def _question(self, index: int, position: int) -> tuple[str, int | None]:
        """Its text and tokens, as far as these are known."""
        if self._recorded:
            text, count = self._questions(index)[position], self._context.count_tokens
            return text, None if count is None else count(text)
        tokens = (self._next if position else self._first).draw(self._words, f"{index}/{position}")
        return self._words.text(f"{index}/{position}", self._fit.words_of(tokens)), tokens

    def _draw_output(self, index: int, position: int) -> int:
        return self._output.draw(self._words, f"{index}/{position}/output")


def conversations(source: Conversations, read: Questions, context: Context) -> DialogueTurns:
    length = context.input_tokens
    manner = Manner(source.turns, length, length, source.think_s, source.think_cv, source.every_s, source.system_tokens)
    return DialogueTurns(manner, read, context)


def agents(source: Agents, read: None, context: Context) -> DialogueTurns:
    manner = Manner(
        source.calls, context.input_tokens, source.result_tokens, source.tool_s, 0.0, 0.0, source.system_tokens
    )
    return DialogueTurns(manner, [], context)


def read_questions(source: Conversations) -> Questions:
    """The questions of each recorded chat; none without a file."""
    chats = read_chats(source.file) if source.file else []
    return [[message.content for message in chat if message.role == "user"] for chat in chats]


def conversation_words(source: Conversations, read: Questions) -> str:
    asked = f"the questions of {len(read)} chats of {source.file}" if read else "made-up questions"
    scheduled = (
        f", and not before its place in a schedule of a turn every {source.every_s:g} s" if source.every_s else ""
    )
    return (
        f"{asked}, one after the other with the model's own answers between them; a turn is due "
        f"{source.think_s:g} s after the answer before it{scheduled}"
    )


def agent_words(source: Agents, read: None) -> str:
    return (
        "tasks of several calls: each holds all that came before, the model's own answers and a made-up tool result as "
        f"a message of the user, {source.tool_s:g} s after the answer"
    )
