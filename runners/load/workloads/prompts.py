"""Prompts and first questions out of files, sent as they stand."""

from runners.load.words import Words
from runners.load.workloads.base import Context, Message, Single, Turn
from runners.load.workloads.files import Recorded, read_chats, read_prompts
from runners.load.workloads.lengths import Lengths
from runners.sources import PromptFile, ShareGpt


class RecordedTurns(Single):
    """Stages take lines in turn, so that they share none until the file is used up; then it begins anew."""

    def __init__(self, source: PromptFile | ShareGpt, read: list[Recorded], context: Context) -> None:
        self._read = read
        self._context = context
        self._words = Words(context.seed, context.salt)
        self._output = Lengths(context.output_tokens)

    def start(self, index: int) -> Turn:
        context = self._context
        recorded = self._read[(index * context.stages + context.stage) % len(self._read)]
        output = recorded.output_tokens or self._output.draw(self._words, index)
        return Turn(recorded.messages, self._counted(recorded), output)

    def _counted(self, recorded: Recorded) -> int | None:
        count, fit = self._context.count_tokens, self._context.fit
        if count is None or not fit.checked or len(recorded.messages) > 1:
            return None
        return round(fit.overhead_tokens) + count(recorded.messages[0].content)


class ShareGptTurns(RecordedTurns):
    """The recorded answer's length is asked for, where a tokenizer can tell it."""

    def __init__(self, source: ShareGpt, read: list[tuple[str, str]], context: Context) -> None:
        super().__init__(source, [Recorded((Message("user", question),)) for question, _ in read], context)
        self._answers = [answer for _, answer in read]

    def start(self, index: int) -> Turn:
        context, turn = self._context, super().start(index)
        answer = self._answers[(index * context.stages + context.stage) % len(self._answers)]
        if context.count_tokens is not None and answer:
            turn.output_tokens = max(1, context.count_tokens(answer))
        return turn


def read_prompt_file(source: PromptFile) -> list[Recorded]:
    return read_prompts(source.file)


def read_share_gpt(source: ShareGpt) -> list[tuple[str, str]]:
    """(first question, the answer to it or nothing) of each chat."""
    pairs = []
    for chat in read_chats(source.file):
        first = next(i for i, message in enumerate(chat) if message.role == "user")
        answers = [message.content for message in chat[first + 1 : first + 2] if message.role == "assistant"]
        pairs.append((chat[first].content, answers[0] if answers else ""))
    return pairs


def prompt_words(source: PromptFile, read: list[Recorded]) -> str:
    return f"{len(read)} prompts of {source.file} as they stand, over and over when they are used up"


def share_gpt_words(source: ShareGpt, read: list[tuple[str, str]]) -> str:
    return (
        f"the first question of {len(read)} chats of {source.file}; as many tokens are asked for as the recorded "
        "answer has where a tokenizer can count them, else the output length of the specification"
    )
