"""Install and start a real Ray for tests and benchmarks: `python -m scripts.clusters.ray`.

Ray has an environment of its own, in a cache directory outside of the checkout. A node takes 1.4 GB of memory. All of
its processes have one session, and they are ended by it. Further nodes of a cluster run on the same machine.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path

REQUIREMENT = "ray[default]==2.60.0"
START_S = 120.0


@dataclass(frozen=True, slots=True)
class RayCluster:
    """A running Ray cluster: its dashboard, its head process, and the program `ray`."""

    address: str
    head: subprocess.Popen[bytes]
    program: Path
    token: str = ""
    gcs_port: int = 0  # where further nodes join

    def is_ready(self, nodes: int = 1) -> bool:
        """Return whether the dashboard answers and this number of nodes is registered."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(f"{self.address}/api/v0/nodes", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                listed = json.load(answer)["data"]["result"]["result"]
                return len([node for node in listed if node["state"] == "ALIVE"]) >= nodes
        except (OSError, ValueError, KeyError, TypeError):
            return False


def ray_program() -> Path:
    """Return the program `ray`. Install it if the cache does not have it."""
    folder = _cache_directory() / REQUIREMENT.replace("[default]==", "-")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not (folder / ".installed").exists():
            print(f"installing {REQUIREMENT} (once)", flush=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder / "venv")], check=True)
            pip = [
                str(folder / "venv/bin/python"),
                "-m",
                "pip",
                "install",
                "-q",
                "--disable-pip-version-check",
            ]
            subprocess.run([*pip, REQUIREMENT], check=True)
            (folder / ".installed").touch()
    return folder / "venv" / "bin" / "ray"


@contextlib.contextmanager
def running_ray(
    *, cpus: int = 2, gpus: int = 0, resources: Mapping[str, float] | None = None, token: str = ""
) -> Iterator[RayCluster]:
    """Run a Ray cluster with one node on this machine. With a `token`, its API requires that token."""
    program = ray_program()
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        port, gcs_port = _free_port(), _free_port()
        head: dict[str, object] = {
            "port": gcs_port,
            "dashboard-host": "127.0.0.1",
            "dashboard-port": port,
            "ray-client-server-port": _free_port(),
            "temp-dir": Path(folder) / "r",
        }
        log = Path(folder) / "head.log"
        resources_of_head = _resource_options(cpus, gpus, resources or {})
        process = _start_node(program, log, ["--head"], {**head, **resources_of_head}, token)
        cluster = RayCluster(f"http://127.0.0.1:{port}", process, program, token, gcs_port)
        try:
            _wait_ready(cluster, process, log, nodes=1)
            yield cluster
        finally:
            stop_ray(cluster)


def stop_ray(cluster: RayCluster) -> None:
    """Kill the processes of the cluster. Jobs that run are killed by Ray's own watchers within a second."""
    _kill_session(cluster.head)


@contextlib.contextmanager
def running_node(
    cluster: RayCluster, *, cpus: int = 2, gpus: int = 0, resources: Mapping[str, float] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the second node of a cluster on this machine. Return its process, for `lose_node`."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        log, join = Path(folder) / "node.log", [f"--address=127.0.0.1:{cluster.gcs_port}"]
        process = _start_node(
            cluster.program, log, join, _resource_options(cpus, gpus, resources or {}), cluster.token
        )
        try:
            _wait_ready(cluster, process, log, nodes=2)
            yield process
        finally:
            _kill_session(process)


def lose_node(process: subprocess.Popen[bytes]) -> None:
    """Kill everything that runs on a node at once, as if its machine had failed: Ray's processes and those of jobs."""
    pids = _tree(process.pid)
    for number in (signal.SIGSTOP, signal.SIGKILL):  # none of them must see the end of another
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    process.wait()


def _tree(root: int) -> list[int]:
    """Return a process and all of its descendants."""
    listed = subprocess.run(["ps", "-eo", "ppid=,pid="], stdout=subprocess.PIPE, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found = [root]
    for parent in found:
        found += [pid for ppid, pid in pairs if ppid == parent]
    return found


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _resource_options(cpus: int, gpus: int, resources: Mapping[str, float]) -> dict[str, object]:
    return {"num-cpus": cpus, "num-gpus": gpus, "resources": json.dumps(dict(resources))}


def _start_node(
    program: Path, log: Path, place: list[str], options: Mapping[str, object], token: str
) -> subprocess.Popen[bytes]:
    common = {
        "dashboard-agent-listen-port": _free_port(),
        "min-worker-port": 0,
        "max-worker-port": 0,
        "object-store-memory": 80_000_000,
    }
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
    if token:
        environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    words = [f"--{name}={value}" for name, value in {**common, **options}.items()]
    with log.open("wb") as output:
        return subprocess.Popen(
            [str(program), "start", "--block", *place, *words],
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )


def _wait_ready(cluster: RayCluster, process: subprocess.Popen[bytes], log: Path, *, nodes: int) -> None:
    end = time.monotonic() + START_S
    while not cluster.is_ready(nodes):
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"Ray did not start: {log.read_text()[-2000:]}")
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anygpu-development"


if __name__ == "__main__":
    with running_ray(cpus=4, gpus=2, resources={"accelerator_type:T4": 1}) as started:
        print(started.address, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            started.head.wait()
