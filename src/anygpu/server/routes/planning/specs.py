"""A job spec as text that submits it, and the code files of a job."""

import asyncio
from typing import Annotated

from fastapi import Depends

from anygpu.api.specs import CodeText, JobCode, RenderRequest, SpecTexts
from anygpu.errors import AnygpuError
from anygpu.server.http.route import JsonBody, api_router
from anygpu.server.jobs.resolve import resolve_job
from anygpu.server.routes.training.jobs import JobRef, parse_spec
from anygpu.server.services import CallerDep, Services, ServicesDep
from anygpu.spec.jobspec import JobSpec
from anygpu.store.blobs.snapshots import SnapshotFile

router = api_router("/api/v1", tag="training")

MAX_FILES = 2000  # in one answer
MAX_TEXT_BYTES = 512 * 1024  # of one file
MAX_TOTAL_BYTES = 4 * 1024 * 1024


@router.post("/spec/render", response_description="Texts that submit this spec.")
async def render_spec_texts(
    body: Annotated[RenderRequest, Depends(JsonBody(RenderRequest))],
    services: ServicesDep,
    caller: CallerDep,
) -> SpecTexts:
    """Render a job spec as a shell command, a YAML job file and Python code. Nothing is started or stored."""
    spec = await parse_spec(services, caller, body.spec, None)
    return await asyncio.to_thread(_render, spec)


def _render(spec: JobSpec) -> SpecTexts:
    from anygpu.spec.render import render_spec

    texts = render_spec(spec)
    return SpecTexts(cli=texts.cli, yaml=texts.yaml, python=texts.python)


@router.get("/training/{ref}/spec", response_description="Texts that submit the spec of the job.")
async def get_spec_texts(ref: JobRef, services: ServicesDep, caller: CallerDep) -> SpecTexts:
    """Render the spec of a job as a shell command, a YAML job file and Python code."""
    view = await resolve_job(services.journal, caller.scope, ref)
    return await asyncio.to_thread(_render, view.spec)


@router.get("/training/{ref}/code/texts", response_description="The files, by path.")
async def get_code_texts(ref: JobRef, services: ServicesDep, caller: CallerDep) -> JobCode:
    """Show the files of a job as they were uploaded, with the text of small text files."""
    view = await resolve_job(services.journal, caller.scope, ref)
    try:
        files, more = await _read_files(services, caller.scope.organisation, view.spec)
    except AnygpuError:  # the upload was removed, or it is damaged
        files, more = [], 0
    workdir = view.spec.workdir
    return JobCode(
        id=view.id,
        stored=bool(files),
        manifest=workdir.manifest if workdir and files else None,
        directory=view.spec.in_place,
        files=files,
        more_files=more,
    )


async def _read_files(services: Services, organisation: str, spec: JobSpec) -> tuple[list[CodeText], int]:
    """Return the files of the snapshot or archive, and how many more there are."""
    workdir = spec.workdir
    if workdir is None or not workdir.has_copy:
        return [], 0
    if workdir.manifest is None:
        return await _read_archive(services, organisation, str(workdir.archive)), 0
    listed = await services.snapshots.read(organisation, workdir.manifest)
    near = sorted(listed, key=lambda file: (file.path.count("/"), file.path))[:MAX_FILES]
    left = MAX_TOTAL_BYTES
    files: list[CodeText] = []
    for file in near:
        is_read = file.link is None and file.size <= min(MAX_TEXT_BYTES, left)
        text = _as_text(await services.snapshots.content(organisation, file)) if is_read else None
        left -= file.size if text is not None else 0
        files.append(_code_file(file, text))
    return sorted(files, key=lambda file: file.path), len(listed) - len(near)


async def _read_archive(services: Services, organisation: str, sha256: str) -> list[CodeText]:
    """Return the code files of an archive (.tar.gz). Other files are left out; large archives have no files here."""
    from anygpu.plan.analyse.job import MAX_ARCHIVE_BYTES, read_archive

    key = services.uploads.key(organisation, sha256)
    info = await services.blobs.head(key)
    if info is None or info.size > MAX_ARCHIVE_BYTES:
        return []
    contents = await asyncio.to_thread(read_archive, await services.blobs.get(key))
    return [
        CodeText(path=path, size=len(data), sha256=None, executable=False, link=None, text=_as_text(data))
        for path, data in sorted(contents.items())
    ]


def _code_file(file: SnapshotFile, text: str | None) -> CodeText:
    return CodeText(
        path=file.path,
        size=file.size,
        sha256=None if file.link is not None else file.sha256,
        executable=file.executable,
        link=file.link,
        text=text,
    )


def _as_text(data: bytes) -> str | None:
    """Return the content of a text file; None for a binary file."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
