"""Made-up prompts, each unlike any other."""

from runners.load.words import Words
from runners.load.workloads.base import Context, Message, Single, Turn
from runners.load.workloads.lengths import Lengths
from runners.sources import Synthetic


class SyntheticTurns(Single):
    def __init__(self, source: Synthetic, read: None, context: Context) -> None:
        self._fit = context.fit
        self._words = Words(context.seed, context.salt, context.fit.vocabulary)
        self._input, self._output = Lengths(context.input_tokens), Lengths(context.output_tokens)

    def start(self, index: int) -> Turn:
        tokens = self._input.draw(self._words, f"{index}/input")
        prompt = self._words.text(str(index), self._fit.words_for(tokens))
        return Turn((Message("user", prompt),), tokens, self._output.draw(self._words, f"{index}/output"))


def words(source: Synthetic, read: None) -> str:
    return "made-up prompts of common words, each unlike any other"
