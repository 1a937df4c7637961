from anygpu.backends.contract import AccountStatus
from anygpu.backends.health import BackendCheck, BackendHealth, BackendProblem, RequestKind


def test_a_success_removes_the_problem_of_the_same_kind_of_request() -> None:
    health = BackendHealth()
    health.record(RequestKind.LAUNCH, "no quota", 1)
    health.record(RequestKind.OFFERS, "slow down", 2)
    assert [each.request for each in health.problems] == ["offers", "launch"]
    health.record(RequestKind.OFFERS, "", 3)
    assert health.problems == [BackendProblem(request=RequestKind.LAUNCH, message="no quota", at_ms=1)]
    assert health.answered_at_ms == 3


def test_a_check_that_fails_is_a_problem_until_one_succeeds() -> None:
    health = BackendHealth()
    health.record_check(BackendCheck(account=AccountStatus(valid=False)), 1)
    assert [each.message for each in health.problems] == ["the provider does not accept the credentials"]
    health.record_check(BackendCheck(account=AccountStatus(valid=True, message="key of the lab")), 2)
    assert (health.problems, health.checked_at_ms, health.answered_at_ms) == ([], 2, 2)


def test_a_check_without_an_answer_is_forgotten_when_the_backend_lists_offers_again() -> None:
    health = BackendHealth()
    account = AccountStatus(valid=False, message="no answer")
    health.record_check(BackendCheck(account=account, failed_request=RequestKind.OFFERS), 1)
    health.record(RequestKind.OFFERS, "", 2)
    assert health.problems == []
