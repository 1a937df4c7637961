"""Check, before a job is accepted, that its files, its profile and its trainer's packages exist where it would run."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from anygpu.errors import Forbidden, InvalidSpec, Problem
from anygpu.plan.offers.fit import missing_modules_reason
from anygpu.server.services import Services
from anygpu.spec.jobspec import JobSpec
from anygpu.store.blobs.snapshots import Snapshots
from anygpu.store.scope import Scope
from anygpu.suggest import did_you_mean

LOCAL = "local"
SOURCE = "body"


async def require_runnable(services: Services, scope: Scope, spec: JobSpec) -> None:
    """Raise InvalidSpec if the job could not run: something it names is missing.

    Raise Forbidden if it could only run on the server's machine, which its organisation may not use.
    """
    require_place(services, scope, spec)
    visible = {entry.name for entry in services.backends.entries(scope.organisation)}
    problems = [
        *_profile_problems(spec, visible),
        *_script_problems(spec),
        *await _upload_problems(services, scope, spec),
    ]
    if usable_backends(spec, visible) == {LOCAL}:
        problems += await asyncio.to_thread(lambda: [*_framework_problems(spec), *_dataset_problems(spec)])
    if problems:
        raise InvalidSpec(problems)


def require_place(services: Services, scope: Scope, spec: JobSpec) -> None:
    """Raise Forbidden if the job could run only on the server's own machine, and its organisation may not use that."""
    if LOCAL not in services.backends or services.backends.visible(LOCAL, scope.organisation):
        return
    visible = {entry.name for entry in services.backends.entries(scope.organisation)}
    if usable_backends(spec, {*visible, LOCAL}) != {LOCAL}:
        return
    raise Forbidden(
        f"Jobs of the organisation {scope.organisation!r} may not run on the server's own machine "
        "(backend 'local')",
        hint="Add a backend with `anygpu backend add` and let the job use it,"
        " or ask the operator to add the organisation to the setting `local.organisations`.",
    )


def usable_backends(spec: JobSpec, visible: set[str]) -> set[str]:
    """Return the backends on which the job's placement lets it run."""
    allowed = set(spec.placement.allowed_backends) or visible
    return (visible & allowed) - set(spec.placement.forbidden)


def _profile_problems(spec: JobSpec, visible: set[str]) -> Iterator[Problem]:
    profile = spec.placement.profile
    if profile is not None and profile not in visible:
        near = did_you_mean(profile, sorted(visible)) or "`anygpu backend ls` lists the backends"
        yield Problem("placement.profile", profile, f"there is no backend {profile!r}", near, SOURCE)


def _script_problems(spec: JobSpec) -> Iterator[Problem]:
    """Yield a problem for a script that cannot exist: no working directory was sent, and no setup creates it."""
    file = spec.script or spec.trainer_file
    if file is None or spec.setup or (spec.workdir and (spec.workdir.has_copy or spec.workdir.path)):
        return
    yield Problem(
        "script" if spec.script else "trainer",
        file,
        "the job has no working directory, so this file would not exist on the machine",
        "upload the directory (PUT /api/v1/uploads/{sha256}) and set workdir.archive, or send the text as `code`",
        SOURCE,
    )


async def _upload_problems(services: Services, scope: Scope, spec: JobSpec) -> list[Problem]:
    archive = spec.workdir.archive if spec.workdir else None
    wanted = [("workdir.archive", archive)] if archive else []
    wanted += [("dataset.parts", part) for part in (spec.dataset.parts if spec.dataset else ())]
    manifest = spec.workdir.manifest if spec.workdir else None
    wanted += [("workdir.manifest", manifest)] if manifest else []
    hint = "upload it first: PUT /api/v1/uploads/{sha256}"
    problems = [
        Problem(place, sha256, "the file with this SHA-256 was not uploaded to the server", hint, SOURCE)
        for place, sha256 in wanted
        if not await services.uploads.has(scope.organisation, sha256)
    ]
    if manifest and not problems:
        problems += await _snapshot_problems(services.snapshots, scope.organisation, manifest)
    return problems


async def _snapshot_problems(snapshots: Snapshots, organisation: str, manifest: str) -> list[Problem]:
    lost = await snapshots.lost_contents(organisation, await snapshots.read(organisation, manifest))
    if not lost:
        return []
    message = f"the contents of {len(lost)} files were not uploaded, such as {lost[0]!r}"
    hint = "request the list of missing files with POST /api/v1/snapshots/missing, and upload them first"
    return [Problem("workdir.manifest", manifest, message, hint, SOURCE)]


def _framework_problems(spec: JobSpec) -> Iterator[Problem]:
    """Yield a problem if the trainer's packages are not installed for this interpreter, which runs local jobs."""
    from anygpu.trainers.registry import missing_modules  # the start of a server must not load the trainers

    if reason := missing_modules_reason(spec, missing_modules()):
        yield Problem(
            "trainer",
            spec.trainer,
            f"this server {reason} ({sys.executable})",
            "or set `requirements` or `python`, or add a backend, where the packages are installed automatically",
            SOURCE,
        )


def _dataset_problems(spec: JobSpec) -> Iterator[Problem]:
    dataset = spec.dataset
    if dataset is None or dataset.path is None or dataset.parts:
        return
    path = Path(dataset.path)
    if not path.is_absolute() and spec.workdir is None and not spec.setup:
        message = "is a relative path, and the job has no working directory"
        yield Problem("dataset", dataset.path, message, "give an absolute path or a URL", SOURCE)
    elif path.is_absolute() and not spec.setup and not path.exists():
        message = "there is no such file or directory on the server"
        yield Problem("dataset", dataset.path, message, "check the path, or give a URL", SOURCE)
