"""Errors of the steps that start an agent over SSH. Each names the machine and what to do."""

from anygpu.errors import BackendUnavailable, LaunchError


class SshUnreachable(BackendUnavailable):
    """The machine's SSH server does not answer. Check that the machine is on, its address, port and network."""

    code = "ssh_unreachable"


class SshRefused(LaunchError):
    """The machine refused the login. Check the user name, and that the key is in its ~/.ssh/authorized_keys."""

    code = "ssh_refused"


class HostKeyChanged(LaunchError):
    """The machine's host key has changed. If the machine was reinstalled, remove the host and add it again."""

    code = "host_key_changed"


class NoPython(LaunchError):
    """The machine has no Python 3.9 or newer. Install one (apt install python3, or uv python install 3.12)."""

    code = "no_python"


class DiskFull(LaunchError):
    """The machine's disk is full. Free some space in the home directory of the user who logs in."""

    code = "disk_full"


class TunnelRefused(LaunchError):
    """The machine's SSH server allows no reverse tunnel. Set AllowTcpForwarding yes in its sshd_config."""

    code = "tunnel_refused"


class BootstrapFailed(LaunchError):
    """The agent could not be installed on the machine. Read the machine's message, and try to log in with ssh."""

    code = "bootstrap_failed"


class AttemptUnknown(LaunchError):
    """The machine does not know this attempt. Nothing to do: the job starts again on another machine."""

    code = "attempt_unknown"
