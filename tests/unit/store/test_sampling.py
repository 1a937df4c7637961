"""Downsampling of series."""

from hypothesis import given
from hypothesis import strategies as st

from anygpu.store.sampling import downsample_indices, thin_evenly

numbers = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(numbers, max_size=500), st.integers(0, 200))
def test_downsampling_keeps_the_order_and_the_extremes(values: list[float], most: int) -> None:
    chosen = downsample_indices(values, most)
    assert len(chosen) <= most
    assert chosen == sorted(set(chosen))
    real = [value for value in values if value == value]
    if most >= 4 and real:
        kept = [values[index] for index in chosen]
        assert min(real) in kept
        assert max(real) in kept
    if most >= 2 and values:
        assert (chosen[0], chosen[-1]) == (0, len(values) - 1)


@given(st.lists(st.integers(), max_size=100), st.integers(0, 120))
def test_thinning_keeps_the_order_and_the_newest(items: list[int], most: int) -> None:
    found = thin_evenly(list(enumerate(items)), most)
    assert len(found) == min(most, len(items))
    assert found == sorted(found)
    if found:
        assert found[-1] == (len(items) - 1, items[-1])
