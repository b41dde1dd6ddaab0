"""``python -m runners model``: makes a model file out of the packaged model and prints where it is."""

import argparse
import sys

from runners.engines.derived import FOLDER_FORMS, GGUF_FORMS, Derived
from runners.engines.ggml import GgufError
from runners.engines.making import make
from runners.engines.packaged import MODEL_NAME, model_path
from runners.exits import Exit
from runners.strict_json import SpecError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        help=f"such as {MODEL_NAME}:Q8_0 or {MODEL_NAME}:Q4_0:layers=20; "
        f"forms are {', '.join((*GGUF_FORMS, *FOLDER_FORMS))}",
    )


def run(args: argparse.Namespace) -> int:
    try:
        asked = Derived.named(args.name, "name")
        if asked is None:
            raise SpecError(f"name: write it as {MODEL_NAME}:FORM, such as {MODEL_NAME}:Q8_0")
        print(model_path() if asked.is_source else make(asked))
    except SpecError as error:
        print(error, file=sys.stderr)
        return Exit.USAGE
    except (GgufError, OSError) as error:
        print(error, file=sys.stderr)
        return Exit.UNUSABLE
    return Exit.VALID
