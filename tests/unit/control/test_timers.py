"""What is due when: as a plain mapping would say it, whatever is set, moved and dropped on the way."""

from hypothesis import given
from hypothesis import strategies as st

from anygpu.control.timers import NEVER, TimerQueue

KEYS = st.sampled_from("abcde")
MOMENTS = st.sampled_from([0.0, 1.0, 2.0, 3.0, NEVER])
ACTS = st.lists(st.one_of(st.tuples(KEYS, MOMENTS), st.tuples(KEYS, st.none())), max_size=200)


@given(ACTS, MOMENTS, st.one_of(st.none(), st.integers(0, 5)))
def test_it_says_what_a_mapping_would_say(
    acts: list[tuple[str, float | None]], now: float, most: int | None
) -> None:
    agenda, moments = TimerQueue[str](), dict[str, float]()
    for key, at in acts:
        if at is None:
            agenda.drop(key)
            moments.pop(key, None)
        else:
            agenda.set(key, at)
            moments[key] = at
        assert agenda.next_at() == min(moments.values(), default=NEVER)
    soonest = sorted((at, key) for key, at in moments.items() if at <= now)
    assert agenda.due(now, most) == [key for _, key in soonest][:most]
    assert agenda.due(now) == [key for _, key in soonest]  # until it is moved or dropped
    assert {key for key in "abcde" if key in agenda} == moments.keys()
    assert {key: agenda.at(key) for key in "abcde"} == {key: moments.get(key, NEVER) for key in "abcde"}


def test_moments_that_have_passed_out_of_use_take_no_room() -> None:
    agenda = TimerQueue[str]()
    for moment in range(10_000):
        agenda.set("job", float(moment))
        agenda.set("other", 1e9 - moment)
    assert len(agenda._heap) < 100
    assert agenda.due(1e9) == ["job", "other"]
