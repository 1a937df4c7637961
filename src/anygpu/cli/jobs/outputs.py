"""`anygpu events` and `fetch`: read what happened to a job, and download what it produced."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.exits import print_message
from anygpu.cli.terminal import formatting
from anygpu.cli.terminal.output import emit, emit_json, emit_json_line
from anygpu.cli.terminal.transfer import TransferLine
from anygpu.control.ids import short_id
from anygpu.sdk.client import Client
from anygpu.sdk.stream import StreamCursor

if TYPE_CHECKING:
    from anygpu.sdk.downloads import DownloadedFile

Event = dict[str, Any]


@click.command(name="events")
@click.argument("job", default="last")
@click.option("--follow", "-f", is_flag=True, help="Keep printing new events until the job ends.")
@click.option("--all", "everything", is_flag=True, help="Follow the events of every job.")
@click.option(
    "--after", default=0, help="Only events after this position (the number at the start of each line)."
)
@json_option
@context_option
def events_command(
    job: str, follow: bool, everything: bool, after: int, as_json: bool, context_name: str
) -> None:
    """List what happened to a JOB, in order."""
    client = connect(context_name)
    if as_json and not (follow or everything):
        emit_json({"events": list(stored_events(client, job, after))})
        return
    if everything:
        events: Iterator[Event] = (
            each["event"] for each in client.project_stream(after=after) if "event" in each
        )
    else:
        events = _live_events(client, job, after) if follow else stored_events(client, job, after)
    for event in events:
        emit_json_line(event) if as_json else emit([event_line(event, with_job=everything)])


def stored_events(client: Client, job: str, after: int) -> Iterator[Event]:
    while True:
        page = client.events(job, after=after)
        yield from page["events"]
        after = page.get("next_after") or after
        if not page["events"] or not page.get("next_after"):
            return


def _live_events(client: Client, job: str, after: int) -> Iterator[Event]:
    for message in client.stream(job, include=("events",), cursor=StreamCursor(after=after)):
        if message["kind"] == "event":
            yield message["event"]


def event_line(event: Event, *, with_job: bool = False) -> str:
    """Format an event as one line: `17  12:00:03.123  CheckpointSaved  attempt=1 step=400`."""
    clock = event["at"][11:23]
    job = f"{short_id(event['job_id'])}  " if with_job else ""
    return (
        f"{event['position']:>5}  {clock}  {job}{event['type']:<18}  {_event_details(event['data'])}".rstrip()
    )


def _event_details(data: dict[str, Any]) -> str:
    """Format the simple values of an event as `name=value`. Large values, such as the spec, are omitted."""
    simple = {key: value for key, value in data.items() if isinstance(value, str | int | float | bool)}
    nested = {
        key: value.get("step", value.get("name", value.get("code")))
        for key, value in data.items()
        if isinstance(value, dict) and key not in ("spec", "marks", "host")
    }
    shown = {**simple, **{key: value for key, value in nested.items() if value is not None}}
    hidden = ("ticket_sha256", "claimant", "plan")
    return " ".join(f"{key}={_quoted_value(value)}" for key, value in shown.items() if key not in hidden)


def _quoted_value(value: Any) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text


@click.command(name="fetch")
@click.argument("job", default="last")
@click.argument("names", nargs=-1)
@click.option(
    "--to",
    "directory",
    default="",
    help="Target directory. Default: the job's name; with --model the current directory.",
)
@click.option(
    "--checkpoint", "-c", is_flag=True, help="Download the newest checkpoint instead of the outputs."
)
@click.option(
    "--model", "-m", is_flag=True, help="Download only the trained model, named model_FRAMEWORK_TIME."
)
@click.option("--step", type=int, help="Download the checkpoint of this step.")
@click.option("--force", is_flag=True, help="Overwrite files that differ.")
@click.option("--all", "everything", is_flag=True, help="Download all output files.")
@click.option("--list", "only_list", is_flag=True, help="List the files without downloading them.")
@json_option
@context_option
def fetch_command(
    job: str,
    names: tuple[str, ...],
    directory: str,
    checkpoint: bool,
    model: bool,
    step: int | None,
    force: bool,
    everything: bool,
    only_list: bool,
    as_json: bool,
    context_name: str,
) -> None:
    """List the output files of a JOB, or download NAMES, or all of them with --all or --to.

    An interrupted download is continued.
    """
    from anygpu.errors import NotFound
    from anygpu.sdk.downloads import Downloader, artifact_files, checkpoint_files

    client = connect(context_name)
    details = client.job(job)
    if model:
        return _fetch_model(client, details, Path(directory or "."), only_list, as_json)
    wants_checkpoint = checkpoint or step is not None
    files = (
        checkpoint_files(client, details["id"], step)
        if wants_checkpoint
        else artifact_files(client, details["id"])
    )
    files = [file for file in files if not names or file.name in names]
    if missing := set(names) - {file.name for file in files}:
        raise NotFound(
            f"The job has no output file {sorted(missing)[0]!r}.",
            hint="`anygpu fetch --list` lists its files.",
        )
    root = Path(directory or details.get("name") or details["id"])
    wants_download = bool(names or directory or everything or force or wants_checkpoint)
    if only_list or not wants_download:
        listed = [{"name": file.name, "size": file.size, "sha256": file.sha256} for file in files]
        hint = f"Download them with `anygpu fetch {job} --all`, or name some of them." if files else ""
        return _print_files(listed, as_json, hint="" if only_list else hint)
    with TransferLine("Fetching", sum(file.size for file in files)) as line:
        download = Downloader(root, client.http.endpoint.url, force=force, on_bytes=line.add)
        fetched = [_file_entry(download.fetch(file)) for file in files]
    return _print_files(fetched, as_json)


def _fetch_model(
    client: Client, job: dict[str, Any], directory: Path, only_list: bool, as_json: bool
) -> None:
    from anygpu.sdk.models import download_model, find_model, model_file_name

    model = find_model(client, job)
    if only_list:
        listed = [{"name": each.name, "size": each.size, "sha256": each.sha256} for each in model.files]
        return _print_files(listed, as_json)
    files = download_model(model, model_file_name(model, job), directory, client.http.endpoint.url)
    return _print_files([_file_entry(each) for each in files], as_json)


def _file_entry(fetched: "DownloadedFile") -> dict[str, Any]:
    return {"path": str(fetched.path), "size": fetched.size, "downloaded": fetched.downloaded}


def _print_files(files: list[dict[str, Any]], as_json: bool, *, hint: str = "") -> None:
    if as_json:
        emit_json({"files": files})
        return
    if not files:
        emit(
            [
                "Nothing to fetch: the job has no output files. Keep files with `anygpu run --output 'runs/**'`."
            ]
        )
    emit(_file_line(file) for file in files)
    if hint:
        print_message(hint)


def _file_line(file: dict[str, Any]) -> str:
    note = "" if file.get("downloaded", True) else "  (already downloaded)"
    return f"{formatting.size(file['size']):>10}  {file.get('path') or file['name']}{note}"
