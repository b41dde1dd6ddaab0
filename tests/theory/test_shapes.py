import pytest

from observatory.theory.shapes import BY_SLUG, SHAPES, named


def test_every_shape_is_whole_and_names_its_source() -> None:
    assert len(BY_SLUG) == len(SHAPES)
    for shape in SHAPES:
        assert 0 < shape.active_b <= shape.parameters_b
        assert shape.heads % shape.kv_heads == 0
        assert (shape.active_b < shape.parameters_b) == (shape.experts > shape.experts_active)
        assert shape.source


@pytest.mark.parametrize(
    ("model", "slug"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Meta-Llama-3.3-70B-Instruct-AWQ", "llama-3.1-70b"),
        ("llama3.1:8b", "llama-3.1-8b"),
        ("SmolLM2-135M-Instruct", "smollm2-135m"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3"),
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
    ],
)
def test_a_served_model_is_known_by_its_name(model: str, slug: str) -> None:
    assert named(model) is BY_SLUG[slug]


@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "my-model", "", "llama-3.1-80b"])
def test_a_model_that_only_sounds_alike_is_not_guessed(model: str) -> None:
    assert named(model) is None
