"""The output of one machine of a job, or of one rank of it: stored, live, or searched."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import click

from anygpu.agent.run.rank_lines import RankSelection
from anygpu.sdk.client import Client
from anygpu.sdk.stream import StreamCursor

READ_BYTES = 1 << 18
MAX_PROCESSES = 1024  # of a job on one machine


@dataclass(frozen=True, slots=True)
class LogSearchOptions:
    """What `--grep` searches for."""

    pattern: str
    regex: bool
    case: bool


@dataclass(frozen=True, slots=True)
class NodeLog:
    """The output of one machine of a job: of one attempt, or of the newest (None).

    `selection` creates the selection of one rank, if only the lines of this rank are wanted.
    """

    client: Client
    job: str
    attempt: int | None
    node: int
    selection: Callable[[], RankSelection] | None = None

    def read(self, tail: int | None) -> Iterator[bytes]:
        """Yield the stored output in blocks, or only its last `tail` lines."""
        start, attempt = self._start(tail)
        return self._select(data for data, _ in self._blocks(start, attempt))

    def read_as_json(self, tail: int | None) -> dict[str, Any]:
        start, attempt = self._start(tail)
        blocks = list(self._blocks(start, attempt))
        text = b"".join(self._select(data for data, _ in blocks)).decode(errors="replace")
        attempt = blocks[-1][1] if blocks else attempt
        return {"attempt": attempt, "node": self.node, "start": start, "text": text}

    def messages(self, tail: int | None) -> Iterator[dict[str, Any]]:
        """Yield the messages of the live stream that have output, until the job ends."""
        start, attempt = self._start(tail)
        cursor = StreamCursor(attempt=attempt or 0, log=start)
        stream = self.client.stream(self.job, include=("logs",), cursor=cursor, node=self.node)
        return self._select_messages(message for message in stream if message["kind"] == "log")

    def find(self, search: LogSearchOptions, tail: int | None) -> Iterator[dict[str, Any]]:
        """Yield the matching lines, or only the last `tail` of them, in order."""
        if tail is None:
            yield from self._selected_hits(search, "after", 0)
        elif tail > 0:
            yield from reversed(list(islice(self._selected_hits(search, "before", 2**53), tail)))

    def _start(self, tail: int | None) -> tuple[int, int | None]:
        if tail is None:
            return 0, self.attempt
        if self.selection is not None:
            return self._selected_tail_start(tail, self.selection())
        return tail_start(self.client, self.job, self.attempt, tail, self.node)

    def _selected_tail_start(self, tail: int, selection: RankSelection) -> tuple[int, int | None]:
        """Return where the last `tail` lines of the rank start, and the attempt's number. Reads the whole log."""
        starts: deque[int] = deque(maxlen=tail)
        line_start, rest, attempt = 0, b"", self.attempt
        for data, number in self._blocks(0, self.attempt):
            attempt = number
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                starts.extend([line_start] if selection.selects(line) else [])
                line_start += len(line) + 1
        starts.extend([line_start] if rest and selection.selects(rest) else [])
        return (starts[0] if starts else line_start + len(rest)), attempt

    def _select(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        if self.selection is None:
            yield from blocks
            return
        selection = self.selection()
        yield from map(selection.feed, blocks)
        yield selection.close()

    def _select_messages(self, messages: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        if self.selection is None:
            yield from messages
            return
        selections = defaultdict[int, RankSelection](self.selection)  # by attempt
        for message in messages:
            data = selections[message["attempt"]].feed(message["data"])
            if data:
                yield {**message, "data": data}

    def _blocks(self, offset: int, attempt: int | None) -> Iterator[tuple[bytes, int]]:
        """Yield the stored output from `offset` on, each block with the number of its attempt."""
        while True:
            data, offset, attempt = self.client.logs(
                self.job, attempt=attempt or None, node=self.node, offset=offset, limit=READ_BYTES
            )
            if not data:
                return
            yield data, attempt

    def _selected_hits(
        self, search: LogSearchOptions, cursor: str, position: int
    ) -> Iterator[dict[str, Any]]:
        selection = None if self.selection is None else self.selection()
        for hit in self._hits(search, cursor, position):
            if selection is None or selection.selects(hit["text"].encode(errors="replace")):
                yield hit

    def _hits(self, search: LogSearchOptions, cursor: str, position: int) -> Iterator[dict[str, Any]]:
        options: dict[str, Any] = {"regex": search.regex, "case": search.case, "node": self.node}
        attempt: int | None = self.attempt
        while True:
            where = {cursor: position, "attempt": attempt, "limit": 1000, "count": False}
            page = self.client.search_log(self.job, search.pattern, **options, **where)
            yield from page["hits"]
            if page["next"] is None:
                return
            position, attempt = page["next"], page["attempt"] or None


def rank_log(client: Client, job: str, attempt: int | None, rank: int) -> NodeLog:
    """Return the output of one rank: the log of its machine, or its lines there if the machine runs several ranks."""
    details = client.job(job)
    if rank == 0 and attempt is None and not details["attempts"]:
        processes = MAX_PROCESSES if details["spec"].get("launcher") == "torchrun" else 1
        return _log_of_rank(client, job, None, rank, processes)
    found = attempt_details(client, job, attempt)
    processes, count = found["processes_per_node"], len(found["nodes"]) or 1
    if rank >= count * processes:
        last = count * processes - 1
        ranks = f"its ranks are 0 to {last}" if last else "it has only rank 0"
        raise click.UsageError(f"The job has no rank {rank}; {ranks}.")
    # Rank 0 is of node 0 in every attempt, so its newest output can be followed.
    return _log_of_rank(client, job, found["number"] if rank else attempt, rank, processes)


def _log_of_rank(client: Client, job: str, attempt: int | None, rank: int, processes: int) -> NodeLog:
    node = rank // processes
    if processes == 1:
        return NodeLog(client, job, attempt, node)
    return NodeLog(client, job, attempt, node, lambda: RankSelection(rank, node * processes, processes))


def attempt_details(client: Client, job: str, attempt: int | None) -> dict[str, Any]:
    attempts = client.job(job)["attempts"]
    found = [each for each in attempts if attempt is None or each["number"] == attempt]
    if not found and attempt is None:
        raise click.UsageError("The job has not started yet, so it has no output. `anygpu show` says why.")
    if not found:
        raise click.UsageError("The job has no such attempt. `anygpu show` lists its attempts.")
    newest: dict[str, Any] = found[-1]
    return newest


def tail_start(client: Client, job: str, attempt: int | None, lines: int, node: int = 0) -> tuple[int, int]:
    """Return the offset where the last `lines` lines start, and the attempt's number.

    Reads the end of the log, and doubles the number of bytes until it contains enough lines.
    """
    back = 1 << 16
    while True:
        data, end, of_attempt = client.logs(job, attempt=attempt, node=node, offset=-back, limit=back)
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
