"""What a job's own words and code tell of its work: from the spec and the files that travel with it."""

from collections.abc import Mapping
from dataclasses import replace

from anygpu.plan.analyse import Analysis, analyse
from anygpu.plan.analyse.trainer import analyse_trainer
from anygpu.spec.model import JobSpec

READ = (".py", ".yaml", ".yml", ".json", ".toml", "requirements.txt")  # what may say something of the work
MOST_LINES = 1000
MOST_FILES, MOST_BYTES = 200, 2 * 1024 * 1024


def script_of(spec: JobSpec) -> str:
    """The script the job runs, as its working directory names it; empty when it runs none."""
    return spec.script or next((word for word in _words(spec) if word.endswith(".py")), "")


def read_work(spec: JobSpec, files: Mapping[str, bytes | str]) -> Analysis | None:
    """None when nothing is known of what it runs. Nothing of it is run."""
    read = _read(spec, files)
    if read is None or not isinstance(spec.requirements, str):
        return read
    return replace(read, requirements=_lines(files.get(spec.requirements, "")))


def _read(spec: JobSpec, files: Mapping[str, bytes | str]) -> Analysis | None:
    if spec.trainer is not None:
        return analyse_trainer(spec.trainer, spec.config)
    if spec.code is not None:
        return analyse(spec.code, name="code", files=files)
    script = script_of(spec)
    if script not in files:
        return None
    beside = {name: text for name, text in files.items() if name != script}
    return analyse(files[script], name=script, args=_arguments(spec, script), files=beside)


def _lines(text: bytes | str) -> tuple[str, ...]:
    words = text if isinstance(text, str) else text.decode("utf-8", errors="replace")
    return tuple(words.splitlines()[:MOST_LINES])


def _arguments(spec: JobSpec, script: str) -> tuple[str, ...]:
    if spec.script:
        return tuple(spec.args)
    words = _words(spec)
    return tuple(words[words.index(script) + 1 :])


def _words(spec: JobSpec) -> list[str]:
    return spec.command.split() if isinstance(spec.command, str) else list(spec.command or ())
