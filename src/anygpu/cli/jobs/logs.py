"""`anygpu logs`: print, follow or search the output of a job, of one of its ranks or machines or of all."""

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.exits import FAILED, print_message
from anygpu.cli.jobs.node_log import LogSearchOptions, NodeLog, attempt_details, rank_log
from anygpu.cli.terminal.job_output import RESET
from anygpu.cli.terminal.output import emit_json, emit_json_line
from anygpu.cli.terminal.screen import output_filter, write_output
from anygpu.sdk.client import Client

MAX_WAITING_BLOCKS = 1000  # blocks of output that wait to be printed


@click.command(name="logs")
@click.argument("job", default="last")
@click.option("--follow", "-f", is_flag=True, help="Keep printing new output until the job ends.")
@click.option("--tail", "-n", type=click.IntRange(0), help="Print only this number of lines, from the end.")
@click.option("--attempt", type=click.IntRange(1), help="Number of the attempt. Default: the newest.")
@click.option(
    "--node", type=click.IntRange(0, 1023), help="Machine of a job on several machines. Default: node 0."
)
@click.option(
    "--rank",
    type=click.IntRange(0),
    help="Print only the lines of this rank of a job with several processes.",
)
@click.option("--all-ranks", is_flag=True, help="Print the output of all machines of the job, rank 0 first.")
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
    node: int | None,
    rank: int | None,
    all_ranks: bool,
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
    _check_options(follow, node, rank, all_ranks, pattern, regex or case, as_json)
    client = connect(context_name)
    log = NodeLog(client, job, attempt, node or 0)
    if rank is not None:
        log = rank_log(client, job, attempt, rank)
    search = None if pattern is None else LogSearchOptions(pattern, regex, case)
    if all_ranks and follow:
        _print_all_live(client, job, attempt, tail, raw)
    elif all_ranks:
        _print_all(client, job, attempt, tail, search, raw)
    elif search is not None:
        _print_hits(list(log.find(search, tail)), raw, as_json)
    elif follow and as_json:
        for message in log.messages(tail):
            emit_json_line({**message, "data": message["data"].decode(errors="replace")})
    elif follow:
        _print_output((message["data"] for message in log.messages(tail)), raw)
    elif as_json:
        emit_json({"job": job, **log.read_as_json(tail)})
    else:
        _print_output(log.read(tail), raw)


def _check_options(
    follow: bool,
    node: int | None,
    rank: int | None,
    all_ranks: bool,
    pattern: str | None,
    has_search_options: bool,
    as_json: bool,
) -> None:
    if pattern is None and has_search_options:
        raise click.UsageError(
            "--regex and --case are only for a search. Give the text to search for with --grep."
        )
    if pattern is not None and follow:
        raise click.UsageError("--grep searches the stored output; leave out --follow.")
    if sum((node is not None, rank is not None, all_ranks)) > 1:
        raise click.UsageError("Give only one of --node, --rank and --all-ranks.")
    if all_ranks and as_json:
        raise click.UsageError("--all-ranks prints text; leave out --json, or give --node.")


def _print_all(
    client: Client,
    job: str,
    attempt: int | None,
    tail: int | None,
    search: LogSearchOptions | None,
    raw: bool,
) -> None:
    """Print the output of every machine, or the lines that match, the one with rank 0 first, each with a heading."""
    details = attempt_details(client, job, attempt)
    logs = [NodeLog(client, job, details["number"], node) for node in range(len(details["nodes"]) or 1)]
    if search is None:
        _print_output(_with_headings(details, [log.read(tail) for log in logs]), raw)
        return
    hits = [list(log.find(search, tail)) for log in logs]
    _print_output(_with_headings(details, [map(_hit_line, each) for each in hits]), raw)
    if not any(hits):
        _exit_without_hits()


def _with_headings(details: dict[str, Any], outputs: Sequence[Iterator[bytes]]) -> Iterator[bytes]:
    """Yield the output of each machine of an attempt after a line with its ranks and its host."""
    each = details["processes_per_node"]
    hosts = [node["host"] for node in details["nodes"]] or [""]
    for node, (host, blocks) in enumerate(zip(hosts, outputs, strict=True)):
        yield f"==> {_ranks(node, each)}{f' on {host}' if host else ''} <==\n".encode()
        last = b"\n"
        for last in blocks:
            yield last
        yield b"" if last.endswith(b"\n") else b"\n"


def _ranks(node: int, processes: int) -> str:
    first = node * processes
    return f"rank {first}" if processes == 1 else f"ranks {first} to {first + processes - 1}"


def _print_all_live(client: Client, job: str, attempt: int | None, tail: int | None, raw: bool) -> None:
    """Print new output of every machine as it arrives, each line with the number of its machine."""
    nodes = (client.job(job)["spec"].get("resources") or {}).get("nodes", 1)
    printers = [_NodeLines(node, raw) for node in range(nodes)]
    arrived: queue.Queue[tuple[int, bytes | BaseException | None]] = queue.Queue(MAX_WAITING_BLOCKS)
    for node in range(nodes):
        log = NodeLog(client.another(), job, attempt, node)
        threading.Thread(target=_receive, args=(log, tail, arrived), daemon=True).start()
    running = nodes
    while running:
        node, data = arrived.get()
        if isinstance(data, BaseException):
            raise data
        write_output(printers[node].close() if data is None else printers[node].feed(data))
        running -= data is None


def _receive(
    log: NodeLog, tail: int | None, arrived: "queue.Queue[tuple[int, bytes | BaseException | None]]"
) -> None:
    """Put the output of one machine into the queue as it arrives, and None at its end, or the error."""
    try:
        for message in log.messages(tail):
            arrived.put((log.node, message["data"]))
        arrived.put((log.node, None))
    except BaseException as error:  # noqa: BLE001  raised again in the main thread
        arrived.put((log.node, error))


class _NodeLines:
    """Turns the output of one machine, which arrives in blocks, into whole lines with the number of the machine."""

    def __init__(self, node: int, raw: bool) -> None:
        self._prefix = f"node {node} | ".encode()
        self._filter = output_filter(raw=raw)
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        *lines, self._rest = (self._rest + self._filter.feed(data)).split(b"\n")
        return b"".join(self._line(line) for line in lines)

    def close(self) -> bytes:
        rest = self._rest + self._filter.close()
        return self._line(rest) if rest.removesuffix(RESET.encode()) else b""

    def _line(self, text: bytes) -> bytes:
        # A progress bar rewrites its line: only its last state is printed.
        shown = text.rstrip(b"\r").rpartition(b"\r")[2]
        reset = RESET.encode() if b"\x1b[" in shown else b""
        return self._prefix + shown + reset + b"\n"


def _print_hits(hits: list[dict[str, Any]], raw: bool, as_json: bool) -> None:
    if as_json:
        emit_json({"hits": hits})
    else:
        _print_output((_hit_line(hit) for hit in hits), raw)
    if not hits:
        _exit_without_hits()


def _exit_without_hits() -> None:
    print_message("No line matches.")
    raise SystemExit(FAILED)


def _hit_line(hit: dict[str, Any]) -> bytes:
    return f"{hit['number']}:{hit['text']}\n".encode()


def _print_output(pieces: Iterator[bytes], raw: bool) -> None:
    safe = output_filter(raw=raw)
    for data in pieces:
        write_output(safe.feed(data))
    write_output(safe.close())
