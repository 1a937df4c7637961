"""Find fields of a job spec that are valid but that nothing in the product acts on.

A job with such a field is refused when it is submitted. The checks are not part of the model, because specs in the
journal must load for ever.
"""

from collections.abc import Iterator

from anygpu.errors import Problem
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.sections import Dataset, Placement, Track

DOWNLOAD_SCHEMES = ("http", "https")  # the schemes of dataset URLs that an agent can download
TRACKERS = ("mlflow", "wandb", "tensorboard")


def unsupported_fields(spec: JobSpec) -> Iterator[Problem]:
    """Yield a problem for each field that would have no effect."""
    if spec.dataset is not None:
        yield from _dataset_problems(spec.dataset)
    if spec.notify:
        yield Problem(
            "notify",
            ", ".join(notify.to for notify in spec.notify),
            "this server cannot send notifications",
            "remove it, and follow the job with `anygpu events -f`",
        )
    if spec.image and spec.python:
        yield Problem(
            "python",
            spec.python,
            "has no effect together with 'image', because the Python of the image is used",
            "remove 'python', or remove 'image'",
        )
    yield from _track_problems(spec.track, has_trainer=spec.trainer is not None)
    yield from _profile_problems(spec.placement)


def _dataset_problems(dataset: Dataset) -> Iterator[Problem]:
    if dataset.name is not None:
        yield Problem(
            "dataset", dataset.name, "this server does not store datasets by name", "give a path or a URL"
        )
    scheme = (dataset.url or "").partition("://")[0]
    if scheme and scheme not in DOWNLOAD_SCHEMES:
        yield Problem(
            "dataset.url",
            dataset.url,
            f"data cannot be downloaded from {scheme}:// addresses",
            "give a path, or an https:// address, such as a signed URL of the bucket",
        )


def _track_problems(track: Track, *, has_trainer: bool) -> Iterator[Problem]:
    wanted = {name: value for name in TRACKERS if (value := getattr(track, name))}
    if not has_trainer:
        for name, value in wanted.items():
            message = "works only for jobs with a trainer, and this job runs a script or command"
            yield Problem(
                f"track.{name}", value, message, "remove it, and report to the tracker in the script itself"
            )
    if track.tags and not wanted:
        yield Problem(
            "track.tags",
            ", ".join(track.tags),
            "has no effect, because the job reports to no tracker",
            "use `tags` for the tags of the job, or set one of "
            + ", ".join(f"track.{name}" for name in TRACKERS),
        )


def _profile_problems(placement: Placement) -> Iterator[Problem]:
    others = [name for name in ("allowed", "fallbacks") if getattr(placement, name)]
    if placement.profile in placement.forbidden:
        others.append("forbidden")
    if placement.profile is not None and others:
        yield Problem(
            "placement.profile",
            placement.profile,
            f"cannot be combined with {' and '.join(others)}: the job runs on the backend of its profile only",
            "remove `placement.profile`, or remove the others",
        )
