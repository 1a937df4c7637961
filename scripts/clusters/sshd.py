"""Install OpenSSH's server where root can, for the tests that use it as a host: `python -m scripts.clusters.sshd`."""

import os
import sys

from scripts.clusters.slurm import apt_install, missing_programs


def main() -> int:
    if missing_programs(("sshd",)) and os.geteuid() == 0:
        apt_install(("openssh-server",))
    if missing_programs(("sshd",)):
        sys.stderr.write("sshd is not installed and cannot be installed here: its tests are skipped.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
