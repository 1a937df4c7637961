"""Options and timing of VM backends."""

from anygpu.backends.vm.options import VmOptions, VmTiming, timing_from_options


def test_options_set_the_timeouts_of_each_step() -> None:
    timing = timing_from_options(VmOptions(ready_s=20, ssh_s=10, bootstrap_s=5))
    assert (timing.address_timeout_s, timing.ssh.patience_s, timing.ssh.bootstrap_s) == (20, 10, 5)
    assert timing_from_options(VmOptions()) == VmTiming()
