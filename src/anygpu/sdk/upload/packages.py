"""List the packages of the user's Python as requirements that another machine can install."""

import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from anygpu.errors import InvalidSpec, Problem
from anygpu.installation import local_path

QUERY_TIMEOUT_S = 60
# Runs in the user's Python, which may have neither pip nor anygpu.
QUERY = """
import json, importlib.metadata as metadata
rows = {}
for each in metadata.distributions():
    name = each.metadata["Name"]
    if name and name not in rows:
        origin = each.read_text("direct_url.json")
        rows[name] = [each.version, json.loads(origin) if origin else None]
print(json.dumps(rows))
"""
INSTALLERS = frozenset(("pip", "setuptools", "wheel", "uv", "pipx", "distribute", "anygpu"))
TORCH_PACKAGES = frozenset(("torch", "torchvision", "torchaudio"))
# torch chooses these itself, and each build of torch needs others.
TORCH_DEPENDENCIES = re.compile(r"nvidia-.*|cuda-.*|triton|pytorch-triton.*")
ANY_BUILD = "+auto"  # the agent replaces it by the build for its machine


class CapturedPackages(NamedTuple):
    """Requirements for the packages of an interpreter, and notes about packages that were left out."""

    requirements: list[str]
    notes: list[str]


def capture_packages(python: str, workdir: Path) -> CapturedPackages:
    """Return the packages that the interpreter has, pinned to their versions.

    A package that was installed from a directory inside the working directory is left out, because the job has
    its files. A package from any other local path is refused, because other machines do not have that path.
    """
    packages = {
        name: row for name, row in _installed_packages(python).items() if _normalize(name) not in INSTALLERS
    }
    local = {name: path for name, row in packages.items() if (path := _local_source(row[1])) is not None}
    outside = {name: path for name, path in local.items() if not path.is_relative_to(workdir.resolve())}
    if outside:
        raise InvalidSpec([_local_problem(name, path) for name, path in sorted(outside.items())])
    notes = [
        f"{name} is installed from {path}, in the working directory: the job gets its files, not an installation."
        for name, path in sorted(local.items())
    ]
    return CapturedPackages(_requirements(packages, leave_out=local), notes)


def _requirements(packages: Mapping[str, Sequence[Any]], leave_out: Iterable[str]) -> list[str]:
    by_name = {_normalize(name): (name, *row) for name, row in packages.items() if name not in set(leave_out)}
    has_torch = "torch" in by_name
    return [
        _requirement(name, version, origin)
        for key, (name, version, origin) in sorted(by_name.items())
        if not (has_torch and TORCH_DEPENDENCIES.fullmatch(key))
    ]


def _requirement(name: str, version: str, origin: Mapping[str, Any] | None) -> str:
    """Return `name==version`, or the address of a package from version control or the web.

    The label of a build, such as `+cu124`, is removed: only the package's own index has that build.
    """
    if origin:
        return f"{name} @ {_address(origin)}"
    public = version.partition("+")[0]
    return f"{name}=={public}{ANY_BUILD if _normalize(name) in TORCH_PACKAGES else ''}"


def _address(origin: Mapping[str, Any]) -> str:
    source = origin.get("vcs_info")
    return f"{source['vcs']}+{origin['url']}@{source['commit_id']}" if source else str(origin["url"])


def _local_source(origin: Mapping[str, Any] | None) -> Path | None:
    url = str(origin.get("url") or "") if origin else ""
    return Path(local_path(url)).resolve() if url.startswith("file:") else None


def _local_problem(name: str, path: Path) -> Problem:
    return Problem(
        "requirements",
        "auto",
        f"{name} is installed from {path}, which other machines do not have",
        "move it into the working directory, publish it, or list the requirements yourself",
    )


def _installed_packages(python: str) -> dict[str, list[Any]]:
    try:
        done = subprocess.run(
            [python, "-c", QUERY], capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, check=True
        )
        packages: dict[str, list[Any]] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        hint = "choose another Python with --python"
        raise InvalidSpec(
            [Problem("requirements", "auto", f"the packages of {python} cannot be listed: {error}", hint)]
        ) from error
    return packages


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
