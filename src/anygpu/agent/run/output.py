"""Process the job's output: mask secrets, report it, and parse metrics and progress from it."""

from __future__ import annotations

import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from anygpu.agent.checkpoints.steps import StepHistory
    from anygpu.agent.link.reporter import Reporter
    from anygpu.agent.run.parsing import OutputParser
    from anygpu.agent.run.rank_lines import RankSelection

MASK = b"***"
MIN_SECRET_BYTES = 4
SAFE_PREFIX_BYTES = 3


class SecretMask:
    """Replaces secret values by `***` in a stream of bytes.

    If the end of the data could be the beginning of a secret, those bytes are held back: at most one byte
    less than the longest secret. During a pause of the output, `release_short()` returns the held bytes if
    they are at most three, so that a prompt becomes visible; if the rest of the secret follows, that rest is
    still masked. More than three held bytes stay until more data comes, and become `***` at the end of the
    output. Values of less than four bytes are not masked, because they occur in ordinary output.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = _secret_values(secrets)
        self._pattern = re.compile(b"|".join(re.escape(secret) for secret in self._secrets))
        self._held = b""
        self._shown = 0  # how many of the held bytes were released already

    def feed(self, data: bytes) -> bytes:
        if not self._secrets:
            return data
        text, shown = self._held + data, self._shown
        tail_at = len(text) - self._partial_secret_size(text)
        out, at = [], 0
        for match in self._pattern.finditer(text):
            if match.start() >= tail_at:
                break
            out.append(text[max(at, shown) : max(match.start(), shown)])
            out.append(MASK)
            at = match.end()
        tail_at = max(tail_at, at)
        out.append(text[max(at, shown) : max(tail_at, shown)])
        self._held, self._shown = text[tail_at:], max(0, shown - tail_at)
        return b"".join(out)

    @property
    def has_held_bytes(self) -> bool:
        return len(self._held) > self._shown

    def release_short(self) -> bytes:
        if len(self._held) > SAFE_PREFIX_BYTES:
            return b""
        released, self._shown = self._held[self._shown :], len(self._held)
        return released

    def close(self) -> bytes:
        held, shown = self._held, self._shown
        self._held, self._shown = b"", 0
        if len(held) <= shown:
            return b""
        return held[shown:] if len(held) <= SAFE_PREFIX_BYTES else MASK

    def mask_text(self, text: str) -> str:
        """Mask a complete text, such as a message."""
        if not self._secrets:
            return text
        return self._pattern.sub(MASK, text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")

    def _partial_secret_size(self, text: bytes) -> int:
        """Return the length of the longest suffix of `text` that is the beginning of a secret."""
        longest = 0
        for secret in self._secrets:
            for size in range(min(len(secret) - 1, len(text)), longest, -1):
                if text.endswith(secret[:size]):
                    longest = size
                    break
        return longest


def _secret_values(secrets: Iterable[str]) -> list[bytes]:
    """Return the byte strings to mask, longest first, so that a secret that contains another is masked completely.

    Each line of a secret with several lines is a value of its own.
    """
    values = {
        part.encode("utf-8", "surrogateescape")
        for secret in secrets
        for part in (secret, *secret.split("\n"))
    }
    return sorted((value for value in values if len(value) >= MIN_SECRET_BYTES), key=len, reverse=True)


TAIL_BYTES = 2000
IDLE_S = 0.5


class OutputStream:
    """Masks secrets in the job's output, reports the output, and parses metrics from it.

    With `first_rank`, only the lines of this rank are parsed.
    """

    def __init__(
        self,
        reporter: Reporter,
        mask: SecretMask,
        steps: StepHistory,
        first_rank: RankSelection | None = None,
    ) -> None:
        self._reporter = reporter
        self._mask = mask
        self._steps = steps
        self._first_rank = first_rank
        self._parser: OutputParser | None = None
        self._parsing_failed = False
        self._idle_since = time.monotonic()
        self._tail = b""
        self.script_logs_metrics = False
        self.script_reports_progress = False

    def feed(self, data: bytes) -> None:
        clean = self._mask.feed(data)
        self._idle_since = time.monotonic()
        if clean:
            self._forward(clean)

    def tick(self, now: float) -> float:
        """Release bytes that the mask has held back for a while, and return the time of the next call.

        Without this, a prompt that resembles the beginning of a secret would stay invisible.
        """
        if self._mask.has_held_bytes and now - self._idle_since >= IDLE_S:
            self._forward(self._mask.release_short())
        self._parse(lambda parser: parser.tick())
        return now + IDLE_S

    def close(self) -> None:
        self._forward(self._mask.close())
        if self._first_rank is not None:
            self._feed_parser(self._first_rank.close())
        self._parse(lambda parser: parser.close())
        if self._parser is not None and self._parser.skipped_lines and not self.script_logs_metrics:
            self._reporter.write_line(
                f"{self._parser.skipped_lines:,} of {self._parser.line_count:,} lines were not parsed for metrics, "
                "because the script printed too fast. The last values are complete. "
                "Use anygpu.log(...) to record every value."
            )
        self._reporter.flush()

    def last_line(self) -> str:
        """Return the last line of the output, which usually tells why a job failed."""
        lines = [line.strip() for line in self._tail.replace(b"\r", b"\n").split(b"\n")]
        lines = [line for line in lines if line]
        return lines[-1][-500:].decode("utf-8", "replace") if lines else ""

    def _forward(self, clean: bytes) -> None:
        if not clean:
            return
        self._reporter.write_output(clean)
        self._tail = (self._tail + clean)[-TAIL_BYTES:]
        self._feed_parser(clean if self._first_rank is None else self._first_rank.feed(clean))

    def _feed_parser(self, data: bytes) -> None:
        if not data:
            return
        if self._parser is None:
            from anygpu.agent.run.parsing import OutputParser

            self._parser = OutputParser(self._report_readings)
        self._parse(lambda parser: parser.feed(data))

    def _parse(self, step: Callable[[OutputParser], None]) -> None:
        script_reports_all = self.script_logs_metrics and self.script_reports_progress
        if self._parser is None or self._parsing_failed or script_reports_all:
            return
        try:
            step(self._parser)
        except Exception as error:
            # An error in the parsers must not end a training run.
            self._parsing_failed = True
            self._reporter.write_line(
                f"A bug in anygpu stopped reading metrics from the output ({error!r}); the job continues. Please "
                "report it."
            )

    def _report_readings(self, readings: list[Any], at: float) -> None:
        if not self.script_reports_progress and not self.script_logs_metrics:
            self._record_steps(at)
        for kind, reading in readings:
            if kind == "progress" and not self.script_reports_progress:
                self._reporter.update_progress(reading)
            elif kind == "points" and not self.script_logs_metrics:
                for point in reading:
                    self._steps.record(point[1], point[2], "")
                self._reporter.add_points(reading)

    def _record_steps(self, at: float) -> None:
        """Record the steps that the output has shown. `at` is when it was printed (Unix time)."""
        assert self._parser is not None
        first, last = self._parser.first_steps, self._parser.last_steps
        for unit, step in [*first.items(), *last.items()]:
            self._steps.record(step, at, unit)
        for unit in first.keys() - last.keys():
            self._steps.forget(unit)
