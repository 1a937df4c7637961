"""Start a private Slurm cluster on this machine for tests: several nodes with fake GPUs, two partitions, accounting.

The programs come from Debian's packages. Root installs missing ones with apt-get; without root they must be there.
All daemons bind to loopback, and all files are below one directory. Munge, slurmctld and slurmd run as root.
"""

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue")
PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
ACCOUNTING_PROGRAMS = ("slurmdbd", "mariadbd")
ACCOUNTING_PACKAGES = ("slurmdbd", "mariadb-server", "slurm-wlm-mysql-plugin")
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"
HIGH, LOW = "gpu", "preemptible"
START_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
DATABASE_GRANTS = (
    "CREATE DATABASE IF NOT EXISTS slurm_acct_db; "
    "CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED BY 'slurm'; "
    "CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY 'slurm'; "
    "GRANT ALL ON slurm_acct_db.* TO slurm@localhost; GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1';"
)


class ClusterError(Exception):
    """The cluster could not be started. The message has the reason."""


def install() -> str:
    """Install what is missing. Return why Slurm cannot run here, or an empty string if it can."""
    if sys.platform != "linux":
        return "Slurm needs Linux"
    missing = missing_programs(PROGRAMS)
    if missing and os.geteuid() != 0:
        return f"{', '.join(missing)} is not installed, and only root can install it"
    if os.geteuid() != 0:
        return "its daemons must run as root"
    if missing or missing_programs(ACCOUNTING_PROGRAMS):
        apt_install((*PACKAGES, *ACCOUNTING_PACKAGES))
    missing = missing_programs(PROGRAMS)
    return f"{', '.join(missing)} could not be installed with apt-get" if missing else ""


def missing_programs(programs: Sequence[str]) -> list[str]:
    return [name for name in programs if shutil.which(name, path=PATH) is None]


def apt_install(packages: Sequence[str]) -> None:
    if shutil.which("apt-get") is None:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (
        ["apt-get", "update"],
        ["apt-get", "install", "-y", "--no-install-recommends", *packages],
    ):
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)


class SlurmCluster:
    """A Slurm cluster of this machine in one directory. `variables` are for the commands of Slurm."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 3,
        cpus: int = 8,
        gpus: int = 2,
        accounting: bool = True,
        settings: Mapping[str, str] | None = None,
        max_time: str = "INFINITE",
    ) -> None:
        self.directory = directory
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.accounting = accounting and not missing_programs(ACCOUNTING_PROGRAMS)
        self.variables = {"SLURM_CONF": str(directory / "slurm.conf")}
        self._cpus, self._gpus, self._max_time = cpus, gpus, max_time
        self._settings = dict(settings or {})
        self._daemons: list[subprocess.Popen[bytes]] = []
        ports = _free_ports(nodes + 3)
        self._controller_port, self._database_port, self._accounting_port = ports[:3]
        self._node_ports = ports[3:]

    def __enter__(self) -> "SlurmCluster":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all daemons, and return when every node can run jobs."""
        self._create_directories()
        self._write_configuration()
        self._start_munge()
        if self.accounting:
            self._start_database()
            self._start_accounting()
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        self._wait("the nodes", self._all_idle)

    def start_controller(self) -> None:
        self._spawn("slurmctld", "-D", "-c", "-f", str(self.directory / "slurm.conf"))
        self._wait("slurmctld", lambda: self._succeeds("scontrol", "ping"))

    def start_node(self, node: str) -> None:
        self._spawn("slurmd", "-D", "-N", node, "-f", str(self.directory / "slurm.conf"))

    def stop(self) -> None:
        """Cancel all jobs, wait until their processes have ended, then end all daemons."""
        if self._daemons:
            self._cancel_all()
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in reversed(self._daemons):
            try:
                daemon.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()

    def _cancel_all(self) -> None:
        """End all jobs. A daemon that ends before its jobs would leave their processes behind."""
        end = time.monotonic() + STOP_LIMIT_S
        while time.monotonic() < end:
            listed = self._run(("squeue", "-h", "-o", "%i"))
            jobs = listed.stdout.split()
            if listed.returncode != 0 or not jobs:
                return
            self._succeeds("scancel", *jobs)
            time.sleep(0.2)

    # -- commands ---------------------------------------------------------------------------------------------

    def run(self, *command: str) -> str:
        """Run a command of Slurm as its administrator, and return its output."""
        done = self._run(command)
        if done.returncode != 0:
            raise ClusterError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def jobs(self) -> list[str]:
        """Return the ids of all Slurm jobs that have not ended."""
        return self.run("squeue", "-h", "-o", "%i").split()

    def start_now(self, job: str) -> None:
        """Let a requeued job start at once. Slurm would wait two minutes after it has ended."""

        def starts() -> bool:
            self._succeeds("scontrol", "update", f"JobId={job}", "StartTime=now")
            state = self._run(("squeue", "-h", "-j", job, "-o", "%T")).stdout.strip()
            return state not in ("PENDING", "COMPLETING")

        self._wait(f"job {job}", starts)

    def reserve(self, start: str, minutes: int = 60) -> None:
        """Reserve all nodes for maintenance."""
        nodes = f"Nodes={','.join(self.nodes)}"
        flags = "Flags=MAINT,IGNORE_JOBS"
        self.run(
            "scontrol",
            "create",
            "reservation",
            f"StartTime={start}",
            f"Duration={minutes}",
            nodes,
            flags,
            "Users=root",
        )

    def clean(self) -> None:
        """Cancel all jobs, delete all reservations, and wait until every node is idle."""
        for line in self.run("scontrol", "show", "reservation", "-o").splitlines():
            if line.startswith("ReservationName="):
                self.run("scontrol", "delete", line.split()[0])
        for node in self.run("sinfo", "-h", "-N", "-t", "down,drain,drained", "-o", "%N").split():
            self._succeeds("scontrol", "update", f"NodeName={node}", "State=RESUME")
        jobs = self.jobs()
        if jobs:
            self._succeeds("scancel", *jobs)
        self._wait("the nodes", self._all_idle)

    def _succeeds(self, *command: str) -> bool:
        return self._run(command).returncode == 0

    def _run(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, **self.variables, "PATH": PATH}
        return subprocess.run(
            command, env=environment, text=True, capture_output=True, timeout=60, check=False
        )

    def _all_idle(self) -> bool:
        states = self._run(("sinfo", "-h", "-N", "-o", "%N %t")).stdout.split("\n")
        idle = {line.split()[0] for line in states if line.endswith(" idle")}
        return idle == set(self.nodes)

    # -- set-up -----------------------------------------------------------------------------------------------

    def _create_directories(self) -> None:
        for name in ("run", "state", "log", "database", *(f"spool/{node}" for node in self.nodes)):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o755)
        (self.directory / "run").chmod(0o755)
        for number in range(self._gpus):
            device = self.directory / "run" / f"gpu{number}"
            if not device.exists():
                os.mknod(device, 0o666 | 0o020000, os.makedev(1, 3))  # a character device, such as /dev/null

    def _write_configuration(self) -> None:
        conf = self.directory / "slurm.conf"
        conf.write_text("\n".join((*self._controller_lines(), *self._node_lines(), "")))
        (self.directory / "cgroup.conf").write_text("")
        last = self._gpus - 1
        gres = "".join(
            f"NodeName={node} Name=gpu Type=t4 File={self.directory}/run/gpu[0-{last}]\n"
            for node in self.nodes
        )
        (self.directory / "gres.conf").write_text(gres if self._gpus else "")

    def _controller_lines(self) -> list[str]:
        s, host = self.directory, socket.gethostname().partition(".")[0]
        settings = {
            "ClusterName": "test",
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmctldPort": str(self._controller_port),
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={s}/run/munge.sock",
            "CryptoType": "crypto/munge",
            "StateSaveLocation": f"{s}/state",
            "SlurmdSpoolDir": f"{s}/spool/%n",
            "SlurmctldPidFile": f"{s}/run/slurmctld.pid",
            "SlurmdPidFile": f"{s}/run/slurmd-%n.pid",
            "SlurmctldLogFile": f"{s}/log/slurmctld.log",
            "SlurmdLogFile": f"{s}/log/slurmd-%n.log",
            "SlurmdParameters": "config_overrides",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "SwitchType": "switch/none",
            "MpiDefault": "none",
            "SchedulerType": "sched/backfill",
            "SchedulerParameters": "sched_min_interval=100000,batch_sched_delay=0,bf_interval=2",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core",
            "ReturnToService": "2",
            "JobRequeue": "1",
            "MinJobAge": "300",
            "KillWait": "3",
            "SlurmdTimeout": "30",
            "InactiveLimit": "0",
            "PreemptType": "preempt/partition_prio",
            "PreemptMode": "REQUEUE",
            "GresTypes": "gpu",
            "JobAcctGatherType": "jobacct_gather/linux",
            "JobCompType": "jobcomp/none",
            **self._accounting_settings(),
            **self._settings,
        }
        return [f"{name}={value}" for name, value in settings.items()]

    def _accounting_settings(self) -> dict[str, str]:
        if not self.accounting:
            return {"AccountingStorageType": "accounting_storage/none"}
        return {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": str(self._accounting_port),
            "AccountingStoragePass": f"{self.directory}/run/munge.sock",
            "AccountingStorageTRES": "gres/gpu",
        }

    def _node_lines(self) -> list[str]:
        host = socket.gethostname().partition(".")[0]
        gres = f"Gres=gpu:t4:{self._gpus}" if self._gpus else ""
        nodes = [
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={self._cpus} "
            f"RealMemory=8000 {gres} State=UNKNOWN"
            for node, port in zip(self.nodes, self._node_ports, strict=True)
        ]
        return [
            *nodes,
            # Both have the PreemptMode of the cluster. No jobs have a higher PriorityTier than those of HIGH.
            f"PartitionName={HIGH} Nodes=ALL Default=YES MaxTime={self._max_time} State=UP PriorityTier=10",
            f"PartitionName={LOW} Nodes=ALL MaxTime={self._max_time} State=UP PriorityTier=1",
        ]

    def _start_munge(self) -> None:
        run = self.directory / "run"
        key = self.directory / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self._spawn(
            "munged",
            "--foreground",
            f"--key-file={key}",
            f"--socket={run}/munge.sock",
            f"--pid-file={run}/munged.pid",
            f"--log-file={self.directory}/log/munged.log",
            f"--seed-file={self.directory}/munge.seed",
            "--force",
        )
        self._wait("munged", (run / "munge.sock").exists)

    def _start_database(self) -> None:
        data, run = self.directory / "database", self.directory / "run"
        options = ["--no-defaults", f"--datadir={data}", "--user=root", f"--socket={run}/mariadb.sock"]
        # A server that starts removes the temporary files of others from a shared directory.
        options.append(f"--tmpdir={run}")
        done = self._run(("mariadb-install-db", *options, "--auth-root-authentication-method=normal"))
        if done.returncode != 0:
            raise ClusterError(f"mariadb-install-db: {done.stderr.strip()[-500:]}")
        network = ["--bind-address=127.0.0.1", f"--port={self._database_port}"]
        self._spawn("mariadbd", *options, *network, f"--pid-file={run}/mariadb.pid", "--skip-log-bin")
        client = ("mariadb", "--no-defaults", f"--socket={run}/mariadb.sock", "-u", "root", "-e")
        self._wait("mariadbd", lambda: self._succeeds(*client, "SELECT 1"))
        self.run(*client, DATABASE_GRANTS)

    def _start_accounting(self) -> None:
        s = self.directory
        settings = {
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={s}/run/munge.sock",
            "DbdHost": "localhost",
            "DbdAddr": "127.0.0.1",
            "DbdPort": str(self._accounting_port),
            "SlurmUser": "root",
            "StorageType": "accounting_storage/mysql",
            "StorageHost": "127.0.0.1",
            "StoragePort": str(self._database_port),
            "StorageUser": "slurm",
            "StoragePass": "slurm",
            "StorageLoc": "slurm_acct_db",
            "LogFile": f"{s}/log/slurmdbd.log",
            "PidFile": f"{s}/run/slurmdbd.pid",
        }
        conf = s / "slurmdbd.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        conf.chmod(0o600)
        self._spawn("slurmdbd", "-D")
        for arguments in (
            ("cluster", "test"),
            ("account", "lab", "cluster=test"),
            ("user", "root", "account=lab"),
        ):
            self._wait("slurmdbd", lambda arguments=arguments: self._added(arguments))  # type: ignore[misc]

    def _added(self, arguments: Sequence[str]) -> bool:
        done = self._run(("sacctmgr", "-i", "add", *arguments))
        return done.returncode == 0 or "already exists" in done.stdout + done.stderr

    # -- processes --------------------------------------------------------------------------------------------

    def _spawn(self, program: str, *arguments: str) -> None:
        path = shutil.which(program, path=PATH) or program
        # A test process that is killed must not leave a cluster behind.
        guard = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
        with (self.directory / "log" / f"{program}.out").open("ab") as log:
            daemon = subprocess.Popen(
                [*guard, path, *arguments],
                env={**os.environ, **self.variables, "PATH": PATH},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._daemons.append(daemon)

    def _wait(self, what: str, is_ready: Callable[[], bool]) -> None:
        end = time.monotonic() + START_LIMIT_S
        while not is_ready():
            if time.monotonic() > end:
                raise ClusterError(f"{what} did not start in {START_LIMIT_S:g} s; see {self.directory}/log")
            time.sleep(0.05)


def _free_ports(count: int) -> list[int]:
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("install", "run"), help="install the packages, or run a cluster")
    parser.add_argument(
        "--directory", type=Path, default=Path("build/slurm"), help="where the cluster's files go"
    )
    parser.add_argument("--no-accounting", action="store_true", help="run without slurmdbd and MariaDB")
    options = parser.parse_args()
    problem = install()
    if problem:
        print(f"Slurm cannot run here: {problem}.")
        return 1
    if options.command == "run":
        with SlurmCluster(options.directory.absolute(), accounting=not options.no_accounting) as cluster:
            print(f"export SLURM_CONF={cluster.variables['SLURM_CONF']}", flush=True)
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    return 0


if __name__ == "__main__":
    sys.exit(main())
