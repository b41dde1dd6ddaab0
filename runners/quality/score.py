"""Is an answer right? Pure functions from a task and what was answered to a verdict."""

import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, isclose

from runners.load.dialects.base import Token
from runners.quality.tasks import LETTERS, Kind, Match, Step, Take, Task

_THOUGHT_END = "</think>"
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation + "“”‘’«»…–—")
_NUMBER = re.compile(r"(?<![\w.])[-−+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
_MARKS = " \t\n()[]*_`'\".:,"


@dataclass(frozen=True)
class Verdict:
    """``found``: what was read out of the answer, None when it holds nothing of the kind asked for.

    ``by``: "text", "number", "letter" (as answered) or "logprob" (the likeliest letter at the answer's first token).
    """

    correct: bool
    found: str | None
    by: str


def judge(task: Task, answer: str, tokens: Sequence[Token] = ()) -> Verdict:
    """``tokens`` are those of the answer where the endpoint gives log probabilities."""
    text = answer.rpartition(_THOUGHT_END)[2].strip()
    if task.kind is Kind.EXACT:
        return Verdict(_matches(task, text), text or None, "text")
    if task.kind is Kind.NUMERIC:
        number = number_in(text, task.take)
        right = number is not None and any(_close(task, number, float(answer)) for answer in task.answers)
        return Verdict(right, None if number is None else f"{number:g}", "number")
    letters = LETTERS[: len(task.choices)]
    likeliest = likeliest_letter(text, tokens, letters)
    found = likeliest or letter_in(text, task.choices)
    return Verdict(found in task.answers, found, "logprob" if likeliest else "letter")


# exact


_STEPS: dict[Step, Callable[[str], str]] = {
    Step.CASE: str.casefold,
    Step.PUNCTUATION: lambda text: text.translate(_PUNCTUATION),
    Step.ARTICLES: lambda text: _ARTICLE.sub(" ", text),
    Step.WHITESPACE: lambda text: " ".join(text.split()),
    Step.FIRST_LINE: lambda text: text.strip().partition("\n")[0],
}


def normalised(text: str, steps: Sequence[Step]) -> str:
    for step in steps:
        text = _STEPS[step](text)
    return text.strip()


def _matches(task: Task, text: str) -> bool:
    said = normalised(text, task.normalise)
    wanted = [normalised(answer, task.normalise) for answer in task.answers]
    if task.match is Match.WHOLE:
        return said in wanted
    if task.match is Match.START:
        return any(re.match(rf"{re.escape(answer)}(?!\w)", said) for answer in wanted)
    return any(re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", said) for answer in wanted)


# numeric


def number_in(text: str, take: Take = Take.LAST) -> float | None:
    """The first or last number of a text; thousands may be set apart by commas."""
    found = _NUMBER.findall(text)
    if not found:
        return None
    return float(found[0 if take is Take.FIRST else -1].replace(",", "").replace("−", "-"))


def _close(task: Task, number: float, answer: float) -> bool:
    return isclose(number, answer, rel_tol=max(task.rel_tolerance, 1e-12), abs_tol=task.tolerance)


# choice


def likeliest_letter(text: str, tokens: Sequence[Token], letters: str) -> str | None:
    """The letter of the highest probability among the likeliest tokens at the place where the answer begins, its
    spellings ("B", " B", "(B") taken together. None where none of them is there, or where the first token with
    a sign in it is not the answer's beginning (as after hidden reasoning).
    """
    first = next((token for token in tokens if token.text.strip()), None)
    if first is None or not text.startswith(first.text.strip()):
        return None
    chances: dict[str, float] = {}
    for candidate, logprob in first.top:
        letter = candidate.strip(_MARKS)
        if len(letter) == 1 and letter in letters:
            chances[letter] = chances.get(letter, 0.0) + exp(min(logprob, 0.0))
    return max(chances, key=lambda letter: chances[letter]) if chances else None


def letter_in(text: str, choices: Sequence[str]) -> str | None:
    """The letter that a text answers with: at its beginning, behind "answer is", as the only one in it, or by the words
    of one choice and of no other."""
    letters = LETTERS[: len(choices)]
    opening = re.match(rf"[(*\s]*([{letters}])(?=[).:,*\s]*($|\n)|[).:,*])", text)
    if opening:
        return opening[1]
    named = re.findall(rf"answer\s*(?:is|:)?[\s:(*]*([{letters}])\b", text, re.IGNORECASE)
    if named:
        return str(named[-1]).upper()
    said = normalised(text, (Step.CASE, Step.PUNCTUATION, Step.WHITESPACE))
    told = [letters[i] for i, choice in enumerate(choices) if _says(said, choice)]
    if len(told) == 1:
        return told[0]
    alone = set(re.findall(rf"(?<![\w'])([{letters}])(?![\w'])", text)) - {"A", "I"}
    return alone.pop() if len(alone) == 1 and not told else None


def _says(said: str, choice: str) -> bool:
    words = normalised(choice, (Step.CASE, Step.PUNCTUATION, Step.WHITESPACE))
    return bool(words) and re.search(rf"(?<!\w){re.escape(words)}(?!\w)", said) is not None
