"""`anygpu plan`: where a job could run, how long it would take, what it would cost, and why. Nothing happens yet."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli import catalog, plan_view, run
from anygpu.cli.connection import connect
from anygpu.cli.doubts import about_gpu, about_planned_places
from anygpu.cli.exits import say
from anygpu.cli.jobfile import asked, settled
from anygpu.cli.output import emit, emit_json

if TYPE_CHECKING:
    from anygpu.spec.model import JobSpec

NOT_OURS = {"no_check", "no_workdir", "detach", "dry_run", "key"}  # of submitting
UNSENT = {"no_check": True, "no_workdir": True, "detach": False, "dry_run": True, "key": None}
MOST_SENT = 700_000  # characters: a request has its limit
NO_SERVER = (
    "No server runs here: these are the catalog's offers alone, without machines of your own (anygpu up)."
)


@click.command(
    cls=run.RunCommand,
    name="plan",
    params=[param for param in run.command.params if param.name not in NOT_OURS],
    context_settings=run.command.context_settings,
)
@click.option(
    "--limit",
    default=8,
    type=click.IntRange(min=0),
    help="How many machines to show; 0 shows every offer. Default 8.",
)
@click.option("--rejected", is_flag=True, help="Show what is out of the question, and why.")
@click.pass_context
def command(
    context: click.Context,
    /,
    target: tuple[str, ...],
    as_json: bool,
    limit: int,
    rejected: bool,
    context_name: str,
    **flags: Any,
) -> None:
    """Where a job could run, how long it would take, what it would cost, and why. Nothing is started.

    \b
      anygpu plan train.py --epochs 3
      anygpu plan --on fastest train.py
      anygpu plan job.yaml --max-cost 10 --deadline 6h

    The code is read, never run. Your own machines and accounts are asked; of other clouds
    the catalog knows the prices (anygpu catalog).
    """
    if not target and not flags["trainer"]:
        raise click.UsageError("Nothing to plan: give a script, a job file or a --trainer.", context)
    wanted = asked(target, {**flags, **UNSENT}, is_command=bool(context.meta.get(run.COMMAND)))
    from anygpu.spec.load import from_document

    document, root = settled(wanted.document)
    spec = from_document(document)
    for text in (
        *about_gpu((spec.resources.gpu and spec.resources.gpu.kind) or ""),
        *about_planned_places(connect(context_name), spec.placement.allowed or ()),
    ):
        say(text)
    files = _files(spec, root)
    told = _served(spec, files, limit, context_name) or _here(spec, files, limit)
    if as_json:
        emit_json(told)
        return
    emit([*plan_view.workload(told), *plan_view.offers(told, every=not limit, rejected=rejected)])
    emit(plan_view.rejected(told) if rejected else [])
    emit(plan_view.advice(told))
    emit(["", told["note"]] if told.get("note") else [])


def _served(spec: "JobSpec", files: dict[str, str], limit: int, context_name: str) -> dict[str, Any] | None:
    """As the server sees it; None when there is none."""
    from anygpu.errors import ServerUnreachable

    asked = spec.model_dump(mode="json", exclude_defaults=True)
    try:
        return connect(context_name).plan(asked, _affordable(files), limit=limit)
    except ServerUnreachable:
        if context_name:
            raise
        return None


def _here(spec: "JobSpec", files: dict[str, str], limit: int) -> dict[str, Any]:
    from datetime import UTC, datetime

    from anygpu.plan.catalog import places_in
    from anygpu.plan.document import document
    from anygpu.plan.planner import planned
    from anygpu.plan.workload import read_work

    read = read_work(spec, files)
    found = planned(
        spec, read, places_in(catalog.opened()), deadline_s=spec.limits.seconds_left(datetime.now(UTC))
    )
    told = document(found, read, most=limit or None, short=limit)
    return {**told, "note": NO_SERVER}


def _files(spec: "JobSpec", root: Path) -> dict[str, str]:
    """The script, and what travels with it that it may import or read, the least deep first; named from `root`."""
    from anygpu.plan.workload import MOST_BYTES, MOST_FILES, READ, script_of
    from anygpu.spec.workdir import walk

    script = script_of(spec)
    if not script or not (root / script).is_file():
        return {}
    travels = walk(root, spec.workdir.ignore if spec.workdir else (), links=False)
    small = [entry for entry in travels if entry.name.endswith(READ) and entry.size <= MOST_BYTES]
    near = sorted(small, key=lambda entry: (entry.name.count("/"), entry.name))[:MOST_FILES]
    beside = {entry.name: _text(entry.path) for entry in near if entry.name != script}
    return {script: _text(root / script), **beside}


def _text(path: Path) -> str:
    """As Python reads it, whatever it is: what is no text is no code either."""
    from anygpu.plan.workload import MOST_BYTES

    with path.open("rb") as file:
        return file.read(MOST_BYTES).decode("utf-8", errors="replace")


def _affordable(files: dict[str, str]) -> dict[str, str]:
    """The script first; of the rest what a request has room for."""
    room, sent = MOST_SENT, {}
    for name, text in files.items():
        if len(text) <= room:
            sent[name] = text
            room -= len(text)
    return sent
