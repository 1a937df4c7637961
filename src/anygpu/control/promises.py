"""What a spec may ask for and this version cannot keep: refused at the door, never silently left out."""

from collections.abc import Iterator

from anygpu.errors import InvalidSpec, Problem
from anygpu.spec.model import JobSpec
from anygpu.spec.training import training_problems


def require_keepable(spec: JobSpec) -> None:
    problems = [*_broken(spec), *training_problems(spec)]
    if problems:
        raise InvalidSpec(problems)


def _broken(spec: JobSpec) -> Iterator[Problem]:
    if spec.dataset is not None and spec.dataset.kind == "name":
        yield Problem(
            "dataset", spec.dataset.name, "this server keeps no named datasets", "give a path or a URL"
        )
    if spec.notify:
        to = ", ".join(notify.to for notify in spec.notify)
        yield Problem(
            "notify", to, "this server sends no notices", "follow `anygpu events -f`, or the stream"
        )
    for tracker in ("mlflow", "wandb", "tensorboard"):
        wanted = getattr(spec.track, tracker)
        if wanted and spec.trainer is None:
            said = "is told by trainers only; this job has a script of its own"
            yield Problem(f"track.{tracker}", wanted, said, "log to the tracker from the script")
