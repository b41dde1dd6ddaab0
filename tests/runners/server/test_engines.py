import pytest

from runners.server.engines import ENGINES, engine_of, keys_of
from runners.server.engines.base import ROUTER
from runners.server.metrics import BY_KEY
from tests.runners.server import pages


@pytest.mark.parametrize(
    ("page", "name"),
    [(pages.VLLM, "vLLM"), (pages.SGLANG, "SGLang"), (pages.TGI, "TGI"), (pages.LLAMACPP, "llama.cpp")],
)
def test_a_page_tells_its_engine_and_all_that_the_engine_is_known_to_tell_is_read(page, name):
    engine = engine_of(page)
    assert engine is not None
    assert engine.engine == name
    found = keys_of(engine.read(page))
    missing = set(engine.names) - set(found)
    assert missing <= {"kv_use", "drafted_tokens", "accepted_tokens"}, missing
    assert {"requests_running", "requests_queued", "generated_tokens"} <= set(found)


def test_pages_of_other_programs_have_no_engine():
    assert engine_of("# TYPE up gauge\nup 1\n") is None
    assert engine_of("<html>vllm:num_requests_running</html>") is None


def test_the_newest_name_of_a_thing_is_read_and_the_older_one_beside_it_is_not():
    engine = engine_of(pages.VLLM)
    assert engine is not None
    assert [sample.value for key, sample in engine.read(pages.VLLM) if key == "kv_use"] == [0.5, 0.25]
    old = pages.VLLM.replace("vllm:kv_cache_usage_perc", "vllm:something_else")
    assert [sample.value for key, sample in engine.read(old) if key == "kv_use"] == [0.9]


def test_every_key_of_every_engine_is_in_the_table_of_server_metrics():
    assert {key for engine in ENGINES for key in engine.names} | set(ROUTER) == set(BY_KEY)
