"""Analyse a job from its spec and its uploaded files."""

import io
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from anygpu.plan.analyse.findings import LIKELY, Analysis, CodeFinding, Lint
from anygpu.plan.analyse.script import analyse
from anygpu.plan.analyse.trainer import analyse_trainer
from anygpu.plan.analyse.workload import characteristics
from anygpu.spec.checks.trainer import trainer_processes
from anygpu.spec.jobspec import JobSpec

READABLE_SUFFIXES = (
    ".py",
    ".yaml",
    ".yml",
    ".json",
    ".toml",
    "requirements.txt",
)  # files that may contain code or configuration
MAX_LINES = 1000
SPEC_FILE = "job spec"  # where a value comes from that was not read from code
LINTED_FIELDS = {"no-checkpoint": "checkpointing", "no-resume": "resuming"}
MAX_FILES, MAX_BYTES = 200, 2 * 1024 * 1024


def job_script(spec: JobSpec) -> str:
    """Return the path of the script the job runs, relative to its working directory; empty if none."""
    return spec.script or next((word for word in _words(spec) if word.endswith(".py")), "")


def analyse_job(spec: JobSpec, files: Mapping[str, bytes | str]) -> Analysis | None:
    """Analyse what a job trains, without running any of its code.

    Return None if the job has no trainer and no code, and its script is not among `files`.
    """
    analysis = _analyse(spec, files)
    if analysis is None:
        return None
    analysis = _with_checkpoint_settings(analysis, spec)
    analysis = _with_requested_gpus(analysis, spec, files)
    if not isinstance(spec.requirements, str):
        return analysis
    return replace(analysis, requirements=_lines(files.get(spec.requirements, "")))


def _with_checkpoint_settings(analysis: Analysis, spec: JobSpec) -> Analysis:
    """Let the checkpoint settings of the spec override what was read from the code."""
    stated: dict[str, CodeFinding[bool]] = {}
    if spec.checkpoint.paths:
        paths = ", ".join(spec.checkpoint.paths)
        stated["checkpointing"] = CodeFinding(
            value=True, file=SPEC_FILE, because=f"checkpoint.paths: {paths}"
        )
    if spec.checkpoint.resume_args:
        words = " ".join(spec.checkpoint.resume_args)
        stated["resuming"] = CodeFinding(
            value=True, file=SPEC_FILE, because=f"checkpoint.resume_args: {words}"
        )
    if not stated:
        return analysis
    lints = tuple(lint for lint in analysis.lints if LINTED_FIELDS.get(lint.code) not in stated)
    overridden = replace(analysis, lints=lints, **stated)  # type: ignore[arg-type]
    return replace(overridden, characteristics=characteristics(overridden))


# Words in code that join several processes, and programs that start several.
PROCESS_WORDS = ("LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "torch.distributed")
LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "mpirun", "horovodrun", "srun")
# Frameworks whose training loop uses several GPUs or processes without a change of the script.
DISTRIBUTING_FRAMEWORKS = frozenset({"transformers", "lightning", "accelerate", "deepspeed", "horovod"})


def _with_requested_gpus(analysis: Analysis, spec: JobSpec, files: Mapping[str, bytes | str]) -> Analysis:
    """Take the number of GPUs from the spec, or add a lint if the code cannot use several."""
    per_node = spec.resources.gpu.count if spec.resources.gpu is not None else 0
    total = max(1, per_node) * spec.resources.nodes
    if total == 1 or spec.trainer is not None:
        return analysis
    method = analysis.multi_gpu or _distribution(analysis, spec, files)
    if method is None:
        return replace(analysis, lints=(*analysis.lints, _unused_gpus_lint(spec, per_node)))
    counted = replace(analysis, multi_gpu=method)
    if analysis.gpus is None and per_node:
        counted = replace(
            counted, gpus=CodeFinding(value=total, file=SPEC_FILE, because="resources of the job")
        )
    return replace(counted, characteristics=characteristics(counted))


def _distribution(
    analysis: Analysis, spec: JobSpec, files: Mapping[str, bytes | str]
) -> CodeFinding[str] | None:
    """Return the finding that the job trains with several processes, if its code or command shows it."""
    frameworks = DISTRIBUTING_FRAMEWORKS & {each.value for each in analysis.frameworks}
    program = next(iter(_words(spec)), "")
    texts = [_text(each) for each in (*files.values(), spec.code or "")]
    if frameworks or program in LAUNCHERS:
        because = f"{', '.join(sorted(frameworks)) or program} uses several processes"
    elif any(word in text for text in texts for word in PROCESS_WORDS):
        because = "the code reads the number of processes"
    else:
        return None
    return CodeFinding(value="ddp", file=SPEC_FILE, confidence=LIKELY, because=because)


def _unused_gpus_lint(spec: JobSpec, per_node: int) -> Lint:
    """Return the lint for a job that asks for several GPUs or nodes, and whose code trains in one process."""
    nodes = spec.resources.nodes
    asked = f"{nodes} nodes" if nodes > 1 else f"{per_node} GPUs"
    effect = "only one of the GPUs works for the training"
    if nodes > 1 or spec.launcher != "none":
        effect = "every process trains the whole model by itself"
    return Lint(
        code="unused-gpus",
        message=f"The job asks for {asked}, but the code uses no distributed training: {effect}.",
        advice="Use DistributedDataParallel, FSDP, accelerate or Lightning's `devices`, or ask for one GPU.",
        file=job_script(spec) or "code",
    )


def _analyse(spec: JobSpec, files: Mapping[str, bytes | str]) -> Analysis | None:
    if spec.trainer is not None:
        return analyse_trainer(spec.trainer, spec.config, gpus=trainer_processes(spec))
    if spec.code is not None:
        return analyse(spec.code, name="code", files=files)
    script = job_script(spec)
    if script not in files:
        return None
    other_files = {name: text for name, text in files.items() if name != script}
    return analyse(files[script], name=script, args=_arguments(spec, script), files=other_files)


def _lines(text: bytes | str) -> tuple[str, ...]:
    return tuple(_text(text).splitlines()[:MAX_LINES])


def _text(text: bytes | str) -> str:
    return text if isinstance(text, str) else text.decode("utf-8", errors="replace")


def _arguments(spec: JobSpec, script: str) -> tuple[str, ...]:
    if spec.script:
        return tuple(spec.args)
    words = _words(spec)
    return tuple(words[words.index(script) + 1 :])


def _words(spec: JobSpec) -> list[str]:
    return spec.command.split() if isinstance(spec.command, str) else list(spec.command or ())


MAX_ARCHIVE_BYTES = 32 * 1024 * 1024
MAX_UNPACKED_BYTES = 64 * 1024 * 1024
MAX_ENTRIES = 20_000


def read_archive(archive: bytes, subdir: str = "") -> dict[str, bytes]:
    """Return the code and configuration files of an archive (.tar.gz), by their path below `subdir`.

    If the archive is broken or too large, return the files read so far.
    """
    finding: dict[str, bytes] = {}
    left = MAX_UNPACKED_BYTES
    try:
        with tarfile.open(fileobj=_BoundedInflate(archive), mode="r|") as tar:
            for count, entry in enumerate(tar):
                if count >= MAX_ENTRIES or len(finding) >= MAX_FILES:
                    break
                name = _relative_path(entry.name, subdir)
                if not name or not _is_readable(entry) or entry.size > left:
                    continue
                file = tar.extractfile(entry)
                finding[name] = file.read() if file is not None else b""
                left -= entry.size
    except _BROKEN:
        pass
    return finding


# What tarfile raises for archives that are damaged or malicious. Chained headers exceed the recursion limit.
_BROKEN = (tarfile.TarError, zlib.error, EOFError, ValueError, OSError, OverflowError, RecursionError)


def _is_readable(entry: tarfile.TarInfo) -> bool:
    """Return whether the entry may contain code or configuration. A sparse file takes few bytes and unpacks to many."""
    is_plain = entry.isfile() and not entry.issparse()
    return is_plain and 0 <= entry.size <= MAX_BYTES and entry.name.endswith(READABLE_SUFFIXES)


def _relative_path(name: str, subdir: str) -> str:
    path = PurePosixPath(name)
    if not subdir:
        return path.as_posix()
    return path.relative_to(subdir).as_posix() if path.is_relative_to(subdir) else ""


class _BoundedInflate(io.RawIOBase):
    """A stream that decompresses on read, up to a limit, since a small archive can unpack to huge files."""

    def __init__(self, archive: bytes) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._rest, self._left = archive, MAX_UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` decompressed bytes. `size` is never negative here."""
        if self._left <= 0:
            raise tarfile.ReadError("the working directory is too large for the analysis of its code")
        piece = self._inflate.decompress(self._rest, max(1, size))
        self._rest = self._inflate.unconsumed_tail
        self._left -= len(piece)
        return piece
