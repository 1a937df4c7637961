"""`anygpu fetch`: what a job made, downloaded and verified."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli import words
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.output import emit, emit_json

if TYPE_CHECKING:
    from anygpu.sdk.client import Client
    from anygpu.sdk.downloads import Fetched


@click.command(name="fetch")
@click.argument("job", default="last")
@click.argument("names", nargs=-1)
@click.option(
    "--to",
    "directory",
    default="",
    help="Into this directory. Default: one named like the job; this one for --model.",
)
@click.option("--checkpoint", "-c", is_flag=True, help="The newest checkpoint instead of the outputs.")
@click.option("--model", "-m", is_flag=True, help="The trained model alone, as model_FRAMEWORK_TIME.")
@click.option("--step", type=int, help="The checkpoint of this step.")
@click.option("--force", is_flag=True, help="Overwrite files that differ.")
@click.option("--list", "only_list", is_flag=True, help="Only tell what there is.")
@json_option
@context_option
def command(
    job: str,
    names: tuple[str, ...],
    directory: str,
    checkpoint: bool,
    model: bool,
    step: int | None,
    force: bool,
    only_list: bool,
    as_json: bool,
    context_name: str,
) -> None:
    """Download the outputs of a JOB, or only those NAMED. Broken off, it goes on where it stood."""
    from anygpu.errors import NotFound
    from anygpu.sdk.downloads import Download, artifact_files, checkpoint_files

    client = connect(context_name)
    found = client.job(job)
    if model:
        return _model(client, found, Path(directory or "."), only_list, as_json)
    wants_checkpoint = checkpoint or step is not None
    files = (
        checkpoint_files(client, found["id"], step)
        if wants_checkpoint
        else artifact_files(client, found["id"])
    )
    files = [file for file in files if not names or file.name in names]
    if missing := set(names) - {file.name for file in files}:
        raise NotFound(
            f"The job has no file {sorted(missing)[0]!r}.", hint="`anygpu fetch --list` tells what there is."
        )
    root = Path(directory or found.get("name") or found["id"])
    if only_list:
        return _tell(
            [{"name": file.name, "size": file.size, "sha256": file.sha256} for file in files], as_json
        )
    download = Download(root, client.http.endpoint.url, force=force)
    return _tell([_told(download.fetch(file)) for file in files], as_json)


def _model(client: "Client", job: dict[str, Any], directory: Path, only_list: bool, as_json: bool) -> None:
    from anygpu.sdk.models import bring_home, file_name, model_of

    found = model_of(client, job)
    if only_list:
        listed = [{"name": each.name, "size": each.size, "sha256": each.sha256} for each in found.files]
        return _tell(listed, as_json)
    done = bring_home(found, file_name(found, job), directory, client.http.endpoint.url)
    return _tell([_told(each) for each in done], as_json)


def _told(fetched: "Fetched") -> dict[str, Any]:
    return {"path": str(fetched.path), "size": fetched.size, "downloaded": fetched.downloaded}


def _tell(files: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        emit_json({"files": files})
        return
    if not files:
        emit(["nothing to fetch: the job declared no outputs; `--output 'runs/**'` keeps files"])
    emit(_line(file) for file in files)


def _line(file: dict[str, Any]) -> str:
    note = "" if file.get("downloaded", True) else "  (already here)"
    return f"{words.size(file['size']):>10}  {file.get('path') or file['name']}{note}"
