"""Routes that send the files of a job: artifacts, files of checkpoints, and the list of its code files."""

from typing import Annotated, Any

from fastapi import Path, Query, Request
from starlette.responses import Response

from anygpu.api.reports import CodeFile, CodeFileList
from anygpu.errors import NotFound
from anygpu.events.facts import CheckpointRef
from anygpu.events.view import JobView
from anygpu.server.http.downloads import download_response, preview_response
from anygpu.server.http.route import api_router
from anygpu.server.jobs.resolve import resolve_job
from anygpu.server.routes.training.jobs import JobRef
from anygpu.server.services import CallerDep, Services, ServicesDep
from anygpu.store.blobs.stored_file import StoredFile, StoredFiles

router = api_router("/api/v1/training/{ref}", tag="results")

FilePath = Annotated[str, Path(min_length=1, max_length=1024, examples=["model.pt"])]
CheckpointId = Annotated[str, Path(min_length=1, max_length=200, examples=["c1"])]
Preview = Annotated[
    bool, Query(description="Show an image, or the first 256 KiB of a text, instead of downloading the file.")
]

_BINARY = {"schema": {"type": "string", "format": "binary"}}
_CONTENT = dict.fromkeys(("application/octet-stream", "text/plain", "image/*"), _BINARY)
FILE_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file, or its preview.", "content": _CONTENT},
    206: {"description": "The requested range.", "content": {"application/octet-stream": _BINARY}},
    304: {"description": "The client has this content (If-None-Match)."},
    416: {"description": "The file ends before the requested range."},
}


@router.get("/artifacts/{name:path}", responses=FILE_RESPONSES, response_class=Response)
async def download_artifact(
    ref: JobRef,
    name: FilePath,
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    preview: Preview = False,
) -> Response:
    """Download an artifact as one file. Its parts are joined and verified; a range can be requested."""
    view = await resolve_job(services.journal, caller.scope, ref)
    artifact = next((each for each in view.artifacts if each.name == name), None)
    if artifact is None:
        raise NotFound(
            f"job {view.name or view.id} has no artifact {name!r}", hint="`anygpu fetch JOB` lists its files."
        )
    files = _stored_files(services)
    return await _file_response(request, files, await files.find(artifact.key), preview=preview)


@router.get(
    "/checkpoints/{checkpoint_id}/files/{path:path}", responses=FILE_RESPONSES, response_class=Response
)
async def download_checkpoint_file(
    ref: JobRef,
    checkpoint_id: CheckpointId,
    path: FilePath,
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    preview: Preview = False,
) -> Response:
    """Download a file of a checkpoint as one file. Its parts are joined and verified; a range can be requested."""
    view = await resolve_job(services.journal, caller.scope, ref)
    saved = _find_checkpoint(view, checkpoint_id)
    files = _stored_files(services)
    return await _file_response(request, files, await files.find(saved.manifest, path), preview=preview)


@router.get("/code", response_description="Files of the snapshot.")
async def list_code_files(
    ref: JobRef,
    services: ServicesDep,
    caller: CallerDep,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 200,
) -> CodeFileList:
    """List the files of the snapshot of the working directory that a job runs."""
    view = await resolve_job(services.journal, caller.scope, ref)
    sha256 = view.spec.workdir.manifest if view.spec.workdir else None
    if sha256 is None:
        return CodeFileList(sha256=None, count=0, size=0, files=[])
    found = sorted(await services.snapshots.read(view.organisation, sha256), key=lambda file: file.path)
    shown = [
        CodeFile(path=file.path, size=file.size, sha256=None if file.link else file.sha256, link=file.link)
        for file in found[:limit]
    ]
    return CodeFileList(sha256=sha256, count=len(found), size=sum(file.size for file in found), files=shown)


def _find_checkpoint(view: JobView, checkpoint_id: str) -> CheckpointRef:
    saved = next((each for each in view.checkpoints if each.id == checkpoint_id), None)
    if saved is None:
        raise NotFound(
            f"job {view.name or view.id} has no checkpoint {checkpoint_id!r}",
            hint="Only the newest checkpoints are kept (`checkpoint.keep` of the spec).",
        )
    return saved


def _stored_files(services: Services) -> StoredFiles:
    return StoredFiles(services.blobs, services.checkpoints)


async def _file_response(
    request: Request, files: StoredFiles, file: StoredFile, *, preview: bool
) -> Response:
    if preview:
        return await preview_response(files, file)
    return await download_response(request, files, file)
