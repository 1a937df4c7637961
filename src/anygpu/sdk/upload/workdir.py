"""Choose where a job runs: in place, in the user's directory, or in a copy of the directory that is uploaded."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from anygpu.errors import AnygpuError, Conflict, NotFound, TooLarge, UnsafePath
from anygpu.sdk.client import Client
from anygpu.sdk.upload.snapshots import OpenProgress, no_progress, upload_snapshot

LOCAL = "local"
OWN_KINDS = ("ssh",)  # kinds of backends whose machines cost nothing
FIELDS_WITH_FILES = ("script", "command")


def attach_workdir(
    client: Client,
    spec: dict[str, Any],
    chosen: Path | None,
    *,
    server_is_local: bool,
    open_progress: OpenProgress = no_progress,
    note: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Return the spec with its working directory, ready to submit.

    `chosen` is the directory that the user named; None means the one in the spec, else the current directory.
    A snapshot of the directory is uploaded if the job may run on another machine, or if the spec asks for
    one. `note` gets a message if that is not possible and the job can still run in place.
    """
    described = _described(spec)
    if has_uploaded_files(spec):
        return spec
    if not (needs_files(spec) or chosen is not None):
        return spec
    chosen = chosen or _expand(described.get("path"))
    if not server_is_local or described.get("snapshot"):
        return _with_copy(client, spec, {**described, "snapshot": True}, chosen, open_progress)
    placed = _in_place(spec, described, chosen)
    if not may_run_elsewhere(client, spec):
        return placed
    try:
        copied = _with_copy(client, spec, described, chosen, open_progress)
    except (TooLarge, UnsafePath, Conflict) as error:
        if asks_for_other_backends(spec):
            raise
        note(f"The job can run on this computer only, because its directory cannot be uploaded: {error}")
        return placed
    return _placed_with_copy(placed, copied)


def has_uploaded_files(spec: Mapping[str, Any]) -> bool:
    """Return whether the spec names files that are uploaded already."""
    described = _described(spec)
    return bool(described.get("archive") or described.get("manifest"))


def _placed_with_copy(placed: dict[str, Any], copied: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of a job that runs in place on this computer, and in an uploaded copy on other machines."""
    here, there = placed["workdir"], copied["workdir"]
    script = _script_for_both(placed, copied)
    named = {} if script is None else {"script": script}
    same_root = there["path"] == here["path"] and not (script and Path(script).is_absolute())
    root = {} if same_root else {"root": there["path"]}
    return {**placed, **named, "workdir": {**here, "manifest": there["manifest"], **root}}


def _script_for_both(placed: Mapping[str, Any], copied: Mapping[str, Any]) -> str | None:
    """Return a path of the script that is valid in place and that the server can also find in the copy.

    It is the path that the user gave, unless that leads through a symbolic link.
    """
    given = placed.get("script")
    if given is None:
        return None
    in_copy = str(Path(copied["workdir"]["path"], copied["script"]))
    is_same = os.path.normpath(Path(placed["workdir"]["path"], given)) == in_copy
    return str(given) if is_same else in_copy


def with_snapshot(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a job whose files are uploaded in any case."""
    return {**spec, "workdir": {**_described(spec), "snapshot": True}}


def without_workdir(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec without its working directory: the job starts in an empty directory."""
    return {key: value for key, value in spec.items() if key != "workdir"}


def needs_files(spec: Mapping[str, Any]) -> bool:
    """Return whether the job needs a working directory.

    A trainer given by name needs none, unless `workdir` is given.
    """
    if any(spec.get(kind) for kind in FIELDS_WITH_FILES):
        return True
    return bool(spec.get("trainer") and (trainer_file(spec) or spec.get("workdir")))


def trainer_file(spec: Mapping[str, Any]) -> str | None:
    file = str(spec.get("trainer") or "").partition(":")[0]
    return file if file.endswith(".py") else None


def placement_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec's placement section; an empty one for an invalid spec, which the server will reject."""
    if not spec.get("placement"):
        return {}
    from anygpu.spec import from_mapping  # imports pydantic, which takes longer than the rest of the command

    try:
        return from_mapping(spec).placement.model_dump()
    except AnygpuError:
        return {}


def runs_only_elsewhere(spec: Mapping[str, Any]) -> bool:
    """Return whether the spec lists its allowed backends and `local` is not among them."""
    allowed = set(placement_of(spec).get("allowed") or ())
    return bool(allowed) and LOCAL not in allowed


def asks_for_other_backends(spec: Mapping[str, Any]) -> bool:
    """Return whether the spec allows paid machines, or names backends other than `local`, a location or a budget."""
    if not spec.get("placement") and not spec.get("limits"):
        return False
    from anygpu.spec import from_mapping  # imports pydantic, which takes longer than the rest of the command

    try:
        job = from_mapping(spec)
    except AnygpuError:
        return False  # the server reports what is wrong
    named = {*job.placement.allowed_backends, *job.placement.fallbacks}
    return named != {LOCAL} and (job.placement.paid or job.names_place_or_budget)


def may_run_elsewhere(client: Client, spec: Mapping[str, Any]) -> bool:
    """Return whether the server has another backend than `local` that the job may use.

    Backends that rent machines count only if the job may use paid machines.
    """
    if runs_only_elsewhere(spec):
        return True
    placement, listed = placement_of(spec), client.backends.list()
    allowed, forbidden = placement.get("allowed") or (), placement.get("forbidden") or ()
    others = [each for each in listed["backends"] if each["name"] != LOCAL]
    if not _may_pay(spec, placement, default=listed.get("allow_paid", False)):
        others = [each for each in others if each["kind"] in OWN_KINDS]
    names = {each["name"] for each in others} - set(forbidden)
    return bool(names & set(allowed) if allowed else names)


def _may_pay(spec: Mapping[str, Any], placement: Mapping[str, Any], *, default: bool) -> bool:
    if placement.get("paid") is not None:
        return bool(placement["paid"])
    return default or asks_for_other_backends(spec)


def _described(spec: Mapping[str, Any]) -> dict[str, Any]:
    described = spec.get("workdir") or {}
    return {"path": described} if isinstance(described, str) else dict(described)


def _expand(text: Any) -> Path | None:
    return Path(str(text)).expanduser() if text else None


def _in_place(spec: dict[str, Any], described: dict[str, Any], chosen: Path | None) -> dict[str, Any]:
    """Return the spec of a job that runs in the user's directory, as `python script.py` would."""
    root = _require_directory(chosen)
    file = trainer_file(spec)
    if file is not None:
        root, name = resolve_script(file, chosen)
        return {**spec, **_script_fields(spec, name, file), "workdir": {**described, "path": str(root)}}
    script = spec.get("script")
    named = {} if script is None else {"script": _script_in(root, str(script), chosen)}
    if (
        named
        and spec.get("image")
        and not _script_path(str(script), root, chosen).is_relative_to(root.resolve())
    ):
        raise UnsafePath(
            f"The script {script} is not inside the working directory {root}, and a container sees only this "
            "directory.",
            hint="Choose a directory that contains the script with --workdir.",
        )
    return {**spec, **named, "workdir": {**described, "path": str(root)}}


def _script_in(root: Path, script: str, chosen: Path | None) -> str:
    """Return the path that starts the script in `root`: the one that the user gave, if it is valid there."""
    given = str(Path(script).expanduser()) if script.startswith("~") else script
    path = _script_path(script, root, chosen)
    return given if (root / given).is_file() else str(path)


def _script_path(script: str, root: Path, chosen: Path | None) -> Path:
    """Return the script's absolute path without `..`. Raise NotFound if there is no such file."""
    path = Path(script).expanduser().absolute()
    if chosen is not None and not Path(script).is_absolute() and (root / script).exists():
        path = root / script
    if not path.is_file():
        raise NotFound(
            f"There is no script {script!r}.", hint="Check the path; it is relative to the current directory."
        )
    return path.parent.resolve() / path.name


def _require_directory(chosen: Path | None) -> Path:
    root = (chosen or Path.cwd()).absolute()
    if not root.is_dir():
        raise NotFound(
            f"The working directory {root} does not exist.",
            hint="Check the path that --workdir or the job file gives.",
        )
    return root


def _with_copy(
    client: Client,
    spec: dict[str, Any],
    described: dict[str, Any],
    chosen: Path | None,
    open_progress: OpenProgress,
) -> dict[str, Any]:
    """Return the spec with an uploaded snapshot of its working directory."""
    file = trainer_file(spec)
    root, script = resolve_script(spec.get("script") or file, chosen)
    manifest = upload_snapshot(client, root, described.get("ignore") or (), open_progress)
    sent = {**described, "path": str(root), "manifest": manifest}
    return {**spec, "workdir": sent, **_script_fields(spec, script, file)}


def _script_fields(spec: Mapping[str, Any], script: str | None, trainer: str | None) -> dict[str, Any]:
    if not script:
        return {}
    kind = str(spec.get("trainer")).partition(":")[2]
    return {"trainer": f"{script}:{kind}"} if trainer else {"script": script}


def resolve_script(script: str | None, chosen: Path | None) -> tuple[Path, str | None]:
    """Return the directory to upload and the script's path in it.

    `chosen` is the directory that the user named. Without it, the current directory is uploaded; for a script
    outside the current directory, the directory of the script is uploaded.
    """
    root = _require_directory(chosen).resolve()
    if script is None:
        return _require_upload_root(root, chosen is not None), None
    path = _script_path(script, root, chosen)
    if chosen is not None and not path.is_relative_to(root):
        raise UnsafePath(
            f"The script {script} is not inside the working directory {root}. Choose a directory that "
            "contains it with --workdir."
        )
    if chosen is None and (_is_home_or_root(root) or not path.is_relative_to(root)):
        root = path.parent
    return _require_upload_root(root, chosen is not None), path.relative_to(root).as_posix()


def _require_upload_root(root: Path, chosen: bool) -> Path:
    """Return `root`; raise UnsafePath for the home or root directory unless it was chosen explicitly."""
    if not chosen and _is_home_or_root(root):
        raise UnsafePath(
            f"The working directory is {root}, and all its files would be uploaded.",
            hint="Change to the project's directory, choose one with --workdir, or use --no-workdir.",
        )
    return root


def _is_home_or_root(root: Path) -> bool:
    return root in (Path.home(), Path(root.anchor))
