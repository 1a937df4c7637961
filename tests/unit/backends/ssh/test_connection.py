"""Host key checks, logins and timeouts of SSH connections."""

import asyncssh

from anygpu.backends.ssh.connection import HostKeyCheck, SshLogin, SshTiming, fingerprint
from anygpu.backends.ssh.keys import attempt_key


def test_a_host_key_is_accepted_if_none_is_expected_or_it_is_an_expected_one() -> None:
    shown = asyncssh.import_public_key(attempt_key(b"s", "host").public_openssh)
    known = attempt_key(b"s", "host").public_openssh
    other = attempt_key(b"s", "other").public_openssh
    assert HostKeyCheck(()).accepts(shown)
    assert HostKeyCheck((other, known)).accepts(shown)
    assert not HostKeyCheck((other,)).accepts(shown)


def test_a_fingerprint_has_the_format_of_ssh_keygen() -> None:
    assert fingerprint(attempt_key(b"s", "host").public_openssh).startswith("ssh-ed25519 SHA256:")


def test_rented_machines_are_pinned_by_attempt_and_hosts_by_address() -> None:
    assert SshLogin(machine="m", host="10.0.0.1").pin_name == "10.0.0.1-22"
    assert SshLogin(machine="m", host="10.0.0.1", pin="anygpu-1").pin_name == "anygpu-1"


def test_the_default_patience_is_five_tries_ten_seconds_apart() -> None:
    assert SshTiming().patience_s == 50
