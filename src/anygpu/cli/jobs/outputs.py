"""`anygpu logs`, `events` and `fetch`: read or download what a job produced."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.exits import FAILED, print_message
from anygpu.cli.terminal import formatting
from anygpu.cli.terminal.output import emit, emit_json, emit_json_line
from anygpu.cli.terminal.screen import output_filter, write_output
from anygpu.cli.terminal.transfer import TransferLine
from anygpu.control.ids import short_id
from anygpu.sdk.client import Client
from anygpu.sdk.stream import StreamCursor

if TYPE_CHECKING:
    from anygpu.sdk.downloads import DownloadedFile

READ_BYTES = 1 << 18


@click.command(name="logs")
@click.argument("job", default="last")
@click.option("--follow", "-f", is_flag=True, help="Keep printing new output until the job ends.")
@click.option("--tail", "-n", type=click.IntRange(0), help="Print only this number of lines, from the end.")
@click.option("--attempt", type=click.IntRange(1), help="Number of the attempt. Default: the newest.")
@click.option("--raw", is_flag=True, help="Print the output with all its terminal control sequences.")
@click.option("--grep", "pattern", help="Print only lines that contain this text, with their numbers.")
@click.option("--regex", is_flag=True, help="The text of --grep is a regular expression (RE2 syntax).")
@click.option("--case", is_flag=True, help="--grep distinguishes upper and lower case.")
@json_option
@context_option
def logs_command(
    job: str,
    follow: bool,
    tail: int | None,
    attempt: int | None,
    raw: bool,
    pattern: str | None,
    regex: bool,
    case: bool,
    as_json: bool,
    context_name: str,
) -> None:
    """Print the output of a JOB.

    Terminal control sequences other than colours are removed. In a pipe, colours are removed too.
    """
    if pattern is None and (regex or case):
        raise click.UsageError(
            "--regex and --case are only for a search. Give the text to search for with --grep."
        )
    if pattern is not None and follow:
        raise click.UsageError("--grep searches the stored output; leave out --follow.")
    client = connect(context_name)
    if pattern is not None:
        options = {"attempt": attempt, "regex": regex, "case": case}
        _print_hits(list(_find_lines(client, job, pattern, tail, options)), raw, as_json)
        return
    start, of_attempt = (0, attempt) if tail is None else tail_start(client, job, attempt, tail)
    if follow and as_json:
        _follow_log_as_json(client, job, StreamCursor(attempt=of_attempt or 0, log=start))
    elif follow:
        _print_output(_live_log(client, job, StreamCursor(attempt=of_attempt or 0, log=start)), raw)
    elif as_json:
        chunks = list(stored_log(client, job, of_attempt, start))
        text = b"".join(data for data, _ in chunks).decode(errors="replace")
        emit_json(
            {"job": job, "attempt": chunks[-1][1] if chunks else of_attempt, "start": start, "text": text}
        )
    else:
        _print_output((data for data, _ in stored_log(client, job, of_attempt, start)), raw)


def stored_log(client: Client, job: str, attempt: int | None, offset: int) -> Iterator[tuple[bytes, int]]:
    """Yield the stored output from `offset` on, in blocks, each with the number of its attempt."""
    while True:
        data, offset, attempt = client.logs(job, attempt=attempt, offset=offset, limit=READ_BYTES)
        if not data:
            return
        yield data, attempt


def tail_start(client: Client, job: str, attempt: int | None, lines: int) -> tuple[int, int]:
    """Return the offset where the last `lines` lines start, and the attempt's number.

    Reads the end of the log, and doubles the number of bytes until it contains enough lines.
    """
    back = 1 << 16
    while True:
        data, end, of_attempt = client.logs(job, attempt=attempt, offset=-back, limit=back)
        start = end - len(data)
        body = data.removesuffix(b"\n")
        if lines == 0:
            return end, of_attempt
        pieces = body.split(b"\n")
        if len(pieces) > lines:
            return end - (len(data) - len(body)) - len(b"\n".join(pieces[-lines:])), of_attempt
        if start <= 0 or len(data) < back:
            return max(start, 0), of_attempt
        back *= 2


def _find_lines(
    client: Client, job: str, pattern: str, tail: int | None, options: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the matching lines, or only the last `tail` of them, in order."""
    if tail is None:
        yield from _search(client, job, pattern, {**options, "after": 0})
    elif tail > 0:
        found = islice(_search(client, job, pattern, {**options, "before": 2**53}), tail)
        yield from reversed(list(found))


def _search(client: Client, job: str, pattern: str, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    cursor = "after" if "after" in options else "before"
    while True:
        page = client.search_log(job, pattern, limit=1000, count=False, **options)
        yield from page["hits"]
        if page["next"] is None:
            return
        options = {**options, cursor: page["next"], "attempt": page["attempt"] or None}


def _print_hits(hits: list[dict[str, Any]], raw: bool, as_json: bool) -> None:
    if as_json:
        emit_json({"hits": hits})
    else:
        _print_output((f"{hit['number']}:{hit['text']}\n".encode() for hit in hits), raw)
    if not hits:
        print_message("No line matches.")
        raise SystemExit(FAILED)


def _follow_log_as_json(client: Client, job: str, cursor: StreamCursor) -> None:
    for message in client.stream(job, include=("logs",), cursor=cursor):
        if message["kind"] == "log":
            emit_json_line({**message, "data": message["data"].decode(errors="replace")})


def _live_log(client: Client, job: str, cursor: StreamCursor) -> Iterator[bytes]:
    for message in client.stream(job, include=("logs",), cursor=cursor):
        if message["kind"] == "log":
            yield message["data"]


def _print_output(pieces: Iterator[bytes], raw: bool) -> None:
    safe = output_filter(raw=raw)
    for data in pieces:
        write_output(safe.feed(data))
    write_output(safe.close())


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
