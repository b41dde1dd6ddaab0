import pytest

from runners.quality.statistics import mcnemar_exact, paired_difference, share, unpaired_difference, wilson


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_the_interval_of_a_share_is_wilsons(successes: int, n: int, low: float, high: float) -> None:
    # R. G. Newcombe, Statistics in Medicine 17, 1998, p. 857-872, table I, method 3
    assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("lost", "won", "p_value"),
    [(0, 1, 1.0), (3, 3, 1.0), (10, 2, 2 * (1 + 12 + 66) / 2**12), (1, 14, 2 * (1 + 15) / 2**15), (0, 6, 2 / 64)],
)
def test_the_paired_test_is_the_exact_binomial_one(lost: int, won: int, p_value: float) -> None:
    assert mcnemar_exact(lost, won) == pytest.approx(p_value, rel=1e-12)
    assert mcnemar_exact(won, lost) == mcnemar_exact(lost, won)


def test_many_flips_are_no_trouble() -> None:
    # normal approximation with continuity correction: z = (100 - 1) / sqrt(1500) = 2.556, p = 0.01059
    assert mcnemar_exact(700, 800) == pytest.approx(0.01059, rel=0.01)


def test_without_flips_nothing_speaks_for_a_difference() -> None:
    assert mcnemar_exact(0, 0) == 1.0


def test_the_paired_interval_follows_its_formula() -> None:
    # by hand: p12 = 11/102, p21 = 6/102, d = 5/102, half = 1.959964 x sqrt((17/102 - (5/102)^2) / 102)
    assert paired_difference(5, 10, 100) == pytest.approx((-0.029634, 0.127673), abs=1e-6)


def test_a_share_of_nothing_has_no_number() -> None:
    assert share(0, 0) == {"count": 0, "n": 0, "share": None, "low": None, "high": None}


@pytest.mark.parametrize(("successes", "n"), [(1, 0), (-1, 5), (6, 5)])
def test_what_is_no_share_is_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="not a share"):
        wilson(successes, n)


@pytest.mark.parametrize(
    ("base", "other", "interval"),
    [((48, 80), (56, 70), (0.0524, 0.3339)), ((3, 10), (9, 10), (0.1705, 0.8090))],
    ids=["Newcombe 1998, table II, a", "Newcombe 1998, table II, b"],
)
def test_a_difference_without_pairs_follows_from_both_intervals(
    base: tuple[int, int], other: tuple[int, int], interval: tuple[float, float]
) -> None:
    first, second = ((count / n, *wilson(count, n)) for count, n in (base, other))
    assert unpaired_difference(first, second) == pytest.approx(interval, abs=1e-4)


def test_intervals_of_several_comparisons_are_wider_so_that_all_hold_together() -> None:
    one, four = paired_difference(12, 4, 100), paired_difference(12, 4, 100, 4)
    # z of 1 - 0.025/4 is 2.498, that of 1 - 0.025 is 1.960
    assert (four[1] - four[0]) / (one[1] - one[0]) == pytest.approx(2.4977 / 1.95996, abs=1e-4)
