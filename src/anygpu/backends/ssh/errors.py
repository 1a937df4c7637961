"""One error for each step on the way to a machine, each naming the machine and what to do."""

from anygpu.errors import BackendUnavailable, LaunchError


class SshUnreachable(BackendUnavailable):
    """The machine's SSH server does not answer. Check that it is on, its address and port, and the network."""

    code = "ssh_unreachable"


class SshRefused(LaunchError):
    """The machine refused the login. Check the user name, and that the key is in its ~/.ssh/authorized_keys."""

    code = "ssh_refused"


class HostKeyChanged(LaunchError):
    """The machine shows another host key than before. If it was reinstalled, remove it and add it again."""

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
    """The agent could not be brought onto the machine. Read the machine's own words, and try by hand with ssh."""

    code = "bootstrap_failed"


class AttemptUnknown(LaunchError):
    """The machine knows nothing of this attempt. Nothing to do: the job is started anew elsewhere."""

    code = "attempt_unknown"
