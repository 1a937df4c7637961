"""`anygpu plan`: compare the machines a job could run on, without starting anything."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli.admin import catalog
from anygpu.cli.connection import connect
from anygpu.cli.exits import print_message
from anygpu.cli.jobs import run
from anygpu.cli.jobs.job_file import build_job_request, with_relative_script
from anygpu.cli.jobs.warnings import gpu_warnings, planned_backend_warnings
from anygpu.cli.terminal import plan_lines
from anygpu.cli.terminal.output import emit, emit_json

if TYPE_CHECKING:
    from anygpu.spec.jobspec import JobSpec

SUBMIT_ONLY = {"no_check", "no_workdir", "detach", "dry_run", "key"}  # of submitting
SUBMIT_DEFAULTS = {"no_check": True, "no_workdir": True, "detach": False, "dry_run": True, "key": None}
MAX_CHARACTERS = 700_000  # characters: a request has its limit
NO_SERVER = (
    "No server runs here: these are the catalog's offers alone, without machines of your own (anygpu up)."
)


@click.command(
    cls=run.RunCommand,
    name="plan",
    params=[param for param in run.run_command.params if param.name not in SUBMIT_ONLY],
    context_settings=run.run_command.context_settings,
)
@click.option(
    "--limit",
    default=8,
    type=click.IntRange(min=0),
    help="How many machines to show; 0 shows every offer. Default 8.",
)
@click.option("--rejected", is_flag=True, help="Show what is out of the question, and why.")
@click.pass_context
def plan_command(
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
    wanted = build_job_request(
        target, {**flags, **SUBMIT_DEFAULTS}, is_command=bool(context.meta.get(run.IS_COMMAND))
    )
    from anygpu.spec.load import from_document

    document, root = with_relative_script(wanted.document)
    spec = from_document(document)
    for text in (
        *gpu_warnings((spec.resources.gpu and spec.resources.gpu.kind) or ""),
        *planned_backend_warnings(connect(context_name), spec.placement.allowed or ()),
    ):
        print_message(text)
    files = _code_files(spec, root)
    told = _plan_on_server(spec, files, limit, context_name) or _plan_locally(spec, files, limit)
    if as_json:
        emit_json(told)
        return
    emit(
        [*plan_lines.workload_lines(told), *plan_lines.offer_lines(told, every=not limit, rejected=rejected)]
    )
    emit(plan_lines.rejected_lines(told) if rejected else [])
    emit(plan_lines.advice_lines(told))
    emit(["", told["note"]] if told.get("note") else [])


def _plan_on_server(
    spec: "JobSpec", files: dict[str, str], limit: int, context_name: str
) -> dict[str, Any] | None:
    """As the server sees it; None when there is none."""
    from anygpu.errors import ServerUnreachable

    asked = spec.model_dump(mode="json", exclude_defaults=True)
    try:
        return connect(context_name).plan(asked, _within_limit(files), limit=limit)
    except ServerUnreachable:
        if context_name:
            raise
        return None


def _plan_locally(spec: "JobSpec", files: dict[str, str], limit: int) -> dict[str, Any]:
    from datetime import UTC, datetime

    from anygpu.plan.analyse.job import analyse_job
    from anygpu.plan.catalog import candidates_in
    from anygpu.plan.offers.comparison import comparison_as_dict, rank

    read = analyse_job(spec, files)
    found = rank(
        spec,
        read,
        candidates_in(catalog.load_catalog()),
        deadline_s=spec.limits.seconds_left(datetime.now(UTC)),
    )
    told = comparison_as_dict(found, read, limit=limit or None, short=limit)
    return {**told, "note": NO_SERVER}


def _code_files(spec: "JobSpec", root: Path) -> dict[str, str]:
    """The script, and what travels with it that it may import or read, the least deep first; named from `root`."""
    from anygpu.plan.analyse.job import MAX_BYTES, MAX_FILES, READABLE_SUFFIXES, job_script
    from anygpu.spec.workdir import walk

    script = job_script(spec)
    if not script or not (root / script).is_file():
        return {}
    travels = walk(root, spec.workdir.ignore if spec.workdir else (), links=False)
    small = [entry for entry in travels if entry.name.endswith(READABLE_SUFFIXES) and entry.size <= MAX_BYTES]
    near = sorted(small, key=lambda entry: (entry.name.count("/"), entry.name))[:MAX_FILES]
    beside = {entry.name: _read_text(entry.path) for entry in near if entry.name != script}
    return {script: _read_text(root / script), **beside}


def _read_text(path: Path) -> str:
    """As Python reads it, whatever it is: what is no text is no code either."""
    from anygpu.plan.analyse.job import MAX_BYTES

    with path.open("rb") as file:
        return file.read(MAX_BYTES).decode("utf-8", errors="replace")


def _within_limit(files: dict[str, str]) -> dict[str, str]:
    """The script first; of the rest what a request has room for."""
    room, sent = MAX_CHARACTERS, {}
    for name, text in files.items():
        if len(text) <= room:
            sent[name] = text
            room -= len(text)
    return sent
