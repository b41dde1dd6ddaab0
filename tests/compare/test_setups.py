from observatory.compare.setups import setup_differences


def test_only_fields_that_differ_are_listed_by_their_path() -> None:
    found = setup_differences(
        [
            {"engine": {"name": "vllm", "version": "1"}, "model": "m"},
            {"engine": {"name": "vllm", "version": "2"}, "model": "m"},
        ]
    )
    assert [(row.name, row.values) for row in found] == [("engine.version", ("1", "2"))]


def test_a_field_that_one_setup_lacks_is_missing_not_empty() -> None:
    found = setup_differences([{"pue": 1.2, "note": ""}, {}])
    assert [(row.name, row.values) for row in found] == [("pue", (1.2, None))]


def test_lists_are_compared_as_a_whole() -> None:
    found = setup_differences([{"levels": [1, 2]}, {"levels": [1, 4]}])
    assert found[0].values == ("1, 2", "1, 4")


def test_equal_setups_differ_in_nothing() -> None:
    assert setup_differences([{"a": {"b": 1}}, {"a": {"b": 1}}]) == ()
