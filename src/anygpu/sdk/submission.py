"""What a spec needs before it leaves this machine: its directory packed and uploaded, its interpreter named."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anygpu.errors import NotFound, UnsafePath
from anygpu.sdk.client import Client
from anygpu.sdk.datasets import with_dataset

RUNS_FILES = ("script", "command")


def prepared(
    client: Client,
    spec: Mapping[str, Any],
    *,
    workdir: str | Path | None = None,
    here: bool = False,
    check: bool = True,
) -> dict[str, Any]:
    """The spec ready to submit. `here`: the server is on this machine, so this machine's paths mean something.

    `check`: a trainer's settings and dataset are looked at before anything is sent.
    """
    ready = dict(spec)
    if check and ready.get("trainer"):
        from anygpu.sdk.training import require_trainable

        require_trainable(ready)
    if here:
        ready = _with_local_paths(ready)
    if _runs_files(ready) or workdir is not None:
        ready = _with_archive(client, ready, None if workdir is None else Path(workdir))
    return with_dataset(client, ready, here=here)


def _runs_files(spec: Mapping[str, Any]) -> bool:
    """A trainer by name needs none; one in a file, or with a directory of its own, does."""
    if any(spec.get(kind) for kind in RUNS_FILES):
        return True
    return bool(spec.get("trainer") and (trainer_file(spec) or spec.get("workdir")))


def trainer_file(spec: Mapping[str, Any]) -> str | None:
    file = str(spec.get("trainer") or "").partition(":")[0]
    return file if file.endswith(".py") else None


def interpreter(environ: Mapping[str, str] = os.environ) -> str:
    """The Python people mean: that of the environment they are in, else the one that runs us."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        python = Path(environ.get(variable, "")) / "bin" / "python"
        if environ.get(variable) and python.exists():
            return str(python)
    return sys.executable


def _with_local_paths(spec: dict[str, Any]) -> dict[str, Any]:
    # A trainer runs with the server's own interpreter, in whose environment anygpu's extras are installed.
    if not any(spec.get(key) for key in ("image", "python", "trainer")):
        spec = {**spec, "python": interpreter()}
    data = spec.get("dataset")
    if isinstance(data, str) and "://" not in data and Path(data).exists():
        spec = {**spec, "dataset": {"path": str(Path(data).absolute())}}
    elif isinstance(data, Mapping) and data.get("path"):
        spec = {**spec, "dataset": {**data, "path": str(Path(data["path"]).absolute())}}
    return spec


def _with_archive(client: Client, spec: dict[str, Any], chosen: Path | None) -> dict[str, Any]:
    described = spec.get("workdir") or {}
    described = {"path": described} if isinstance(described, str) else dict(described)
    if described.get("archive"):
        return spec
    file = trainer_file(spec)
    root, script = rooted(spec.get("script") or file, chosen or _path(described.get("path")))
    from anygpu.spec.workdir import pack

    with pack(root, described.get("ignore") or ()) as archive:
        client.upload(archive.sha256, archive.path)
        sent = {**described, "path": str(root), "archive": archive.sha256}
    return {**spec, "workdir": sent, **_placed(spec, script, file)}


def _placed(spec: Mapping[str, Any], script: str | None, trainer: str | None) -> dict[str, Any]:
    if not script:
        return {}
    kind = str(spec.get("trainer")).partition(":")[2]
    return {"trainer": f"{script}:{kind}"} if trainer else {"script": script}


def _path(text: Any) -> Path | None:
    return Path(str(text)).expanduser() if text else None


def rooted(script: str | None, chosen: Path | None) -> tuple[Path, str | None]:
    """The directory that travels, and the script's place in it. A script elsewhere brings its own directory."""
    root = (chosen or Path.cwd()).absolute()
    if not root.is_dir():
        raise NotFound(
            f"There is no directory {root}.", hint="It was to travel with the job; check the path."
        )
    if script is None:
        return _modest(root, chosen is not None), None
    path = Path(script).expanduser().absolute()
    if chosen is not None and not Path(script).is_absolute() and (root / script).exists():
        path = root / script
    if not path.is_file():
        raise NotFound(
            f"There is no script {script!r}.", hint="Check the path; it is relative to this directory."
        )
    if chosen is not None and not path.is_relative_to(root):
        raise UnsafePath(f"{script} is not inside the working directory {root}.")
    if chosen is None and (_vast(root) or not path.is_relative_to(root)):
        root = path.parent
    return _modest(root, chosen is not None), path.relative_to(root).as_posix()


def _modest(root: Path, chosen: bool) -> Path:
    """Nobody means to upload a whole home directory; say so before an hour of packing does."""
    if not chosen and _vast(root):
        raise UnsafePath(
            f"The working directory is {root}, which would be uploaded whole.",
            hint="Change into the project's directory, name one with --workdir, or send none with --no-workdir.",
        )
    return root


def _vast(root: Path) -> bool:
    return root in (Path.home(), Path(root.anchor))
