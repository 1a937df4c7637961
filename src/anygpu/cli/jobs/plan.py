"""`anygpu plan`: compare the machines a job could run on, without starting anything."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli import exits
from anygpu.cli.admin import catalog
from anygpu.cli.connection import connect
from anygpu.cli.exits import print_message
from anygpu.cli.jobs import run
from anygpu.cli.jobs.job_file import build_job_request, with_relative_script
from anygpu.cli.jobs.warnings import gpu_warnings, planned_backend_warnings
from anygpu.cli.terminal import formatting, plan_lines
from anygpu.cli.terminal.output import emit, emit_json

if TYPE_CHECKING:
    from anygpu.sdk.client import Client
    from anygpu.spec.documents import Document
    from anygpu.spec.jobspec import JobSpec

SUBMIT_ONLY = {"no_check", "no_workdir", "detach", "dry_run", "raw", "key"}
SUBMIT_DEFAULTS = {"no_check": True, "no_workdir": True, "detach": False, "dry_run": True, "key": None}
MAX_CHARACTERS = 700_000  # most characters of code in one request
NO_SERVER = (
    "No server is running: only catalog offers are shown. `anygpu up` starts it and adds your own machines."
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
    help="Number of machines to show; 0 shows every offer. Default: 8.",
)
@click.option("--rejected", is_flag=True, help="Also show the offers that do not fit, and why.")
@click.option(
    "--native",
    is_flag=True,
    help="Show the request that starts the job, such as a batch script, instead of the comparison.",
)
@click.option(
    "--offer",
    default="",
    metavar="NAME",
    help="With --native: the offer, as the plan shows it. Default: the best.",
)
@click.pass_context
def plan_command(
    context: click.Context,
    /,
    target: tuple[str, ...],
    as_json: bool,
    limit: int,
    rejected: bool,
    native: bool,
    offer: str,
    context_name: str,
    **flags: Any,
) -> None:
    """Compare the machines a job could run on: time, cost and reasons. Nothing is started.

    \b
      anygpu plan train.py --epochs 3
      anygpu plan --on fastest train.py
      anygpu plan job.yaml --max-cost 10 --deadline 6h
      anygpu plan --native --on lab train.py

    The code is read, never run. Your own machines and accounts are queried; prices of other
    clouds come from the catalog (`anygpu catalog`). The exit code is 1 if no offer fits.
    """
    if not target and not flags["trainer"]:
        raise click.UsageError("Nothing to plan. Name a script, a job file or a --trainer.", context)
    if offer and not native:
        raise click.UsageError("--offer chooses the request of --native; add --native.", context)
    request = build_job_request(
        target, {**flags, **SUBMIT_DEFAULTS}, is_command=bool(context.meta.get(run.IS_COMMAND))
    )
    from anygpu.spec.load import from_document

    document, root = with_relative_script(request.document)
    spec = _with_directory(from_document(document), root)
    for text in (
        *gpu_warnings((spec.resources.gpu and spec.resources.gpu.kind) or ""),
        *planned_backend_warnings(connect(context_name), spec.placement.allowed_backends),
    ):
        print_message(text)
    files = _code_files(spec, root)
    if native:
        _print_native(spec, files, offer, context_name, as_json=as_json)
        return
    plan = _plan_on_server(spec, files, limit, context_name) or _plan_locally(spec, files, limit)
    _print_plan(plan, as_json=as_json, every=not limit, rejected=rejected)
    context.exit(exits.OK if plan["short"] else exits.FAILED)


def _print_native(
    spec: "JobSpec", files: dict[str, str], offer: str, context_name: str, *, as_json: bool
) -> None:
    """Print the requests that would start the job, each below a line with its title."""
    body = spec.model_dump(mode="json", exclude_defaults=True)
    found = connect(context_name).native_requests(body, _within_limit(files), offer=offer)
    if as_json:
        emit_json(found)
        return
    place = found["offer"]
    where = " ".join(filter(None, (place["backend"], place["name"], place["region"])))
    emit([f"# Offer: {where}"])
    for request in found["requests"]:
        emit(["", f"# {request['title']}", *request["text"].rstrip("\n").split("\n")])


def _with_directory(spec: "JobSpec", root: Path) -> "JobSpec":
    """Return the spec with the directory of its script, by which past runs of the same script are found.

    A plan compares all machines, so the job is not planned as one that runs in place.
    """
    from anygpu.spec.sections import Workdir

    if spec.script is None:
        return spec
    described = spec.workdir or Workdir()
    return spec.model_copy(
        update={"workdir": described.model_copy(update={"path": str(root), "snapshot": True})}
    )


def missing_gpu_warnings(client: "Client", document: "Document") -> list[str]:
    """Return a warning if the code needs a GPU, and the machine that gets the job first has none.

    Only machines that the job may use without asking are considered. Without a plan there is no warning.
    """
    from anygpu.errors import AnygpuError
    from anygpu.plan.offers.estimate import NO_GPU
    from anygpu.spec.load import from_document

    try:
        document, root = with_relative_script(document)
        spec = _with_directory(from_document(document), root)
        body = spec.model_dump(mode="json", exclude_defaults=True)
        plan = client.plan(body, _within_limit(_code_files(spec, root)))
    except AnygpuError:
        return []  # the submission reports what is wrong
    usable = (each for each in plan["short"] if each["configured"] and not each["needs_consent"])
    first = next(usable, None)
    if first is None or not first.get("doubt", "").startswith(NO_GPU):
        return []
    return [
        f"{formatting.place(first)} {first['doubt']}. The job starts there anyway; with `--gpu 1` it waits for a GPU."
    ]


def _print_plan(plan: dict[str, Any], *, as_json: bool, every: bool, rejected: bool) -> None:
    for text in plan["unknown"]:
        print_message(text)
    if as_json:
        emit_json(plan)
        return
    emit([*plan_lines.workload_lines(plan), *plan_lines.offer_lines(plan, every=every, rejected=rejected)])
    emit(plan_lines.rejected_lines(plan) if rejected else [])
    emit(plan_lines.advice_lines(plan))
    emit(["", plan["note"]] if plan.get("note") else [])


def _plan_on_server(
    spec: "JobSpec", files: dict[str, str], limit: int, context_name: str
) -> dict[str, Any] | None:
    """Return the server's plan for `spec`; None if no server is running."""
    from anygpu.errors import ServerUnreachable

    body = spec.model_dump(mode="json", exclude_defaults=True)
    try:
        return connect(context_name).plan(body, _within_limit(files), limit=limit)
    except ServerUnreachable:
        if context_name:
            raise
        return None


def _plan_locally(spec: "JobSpec", files: dict[str, str], limit: int) -> dict[str, Any]:
    from datetime import UTC, datetime

    from anygpu.backends.registry import kind_names
    from anygpu.plan.analyse.job import analyse_job
    from anygpu.plan.catalog import candidates_in
    from anygpu.plan.offers.comparison import comparison_as_dict, rank

    read = analyse_job(spec, files)
    comparison = rank(
        spec,
        candidates_in(catalog.load_catalog(), kinds=kind_names()),
        read,
        deadline_s=spec.limits.seconds_left(datetime.now(UTC)),
        allow_paid=False,
    )
    plan = comparison_as_dict(comparison, read, limit=limit or None, short=limit)
    return {**plan, "note": NO_SERVER}


def _code_files(spec: "JobSpec", root: Path) -> dict[str, str]:
    """Return the text of the script and of the files it may import or read, by path relative to `root`."""
    from anygpu.plan.analyse.job import MAX_BYTES, MAX_FILES, READABLE_SUFFIXES, job_script
    from anygpu.spec.workdir import walk

    script = job_script(spec)
    if not script or not (root / script).is_file():
        return {}
    entries = walk(root, spec.workdir.ignore if spec.workdir else (), links=False)
    small = [entry for entry in entries if entry.name.endswith(READABLE_SUFFIXES) and entry.size <= MAX_BYTES]
    near = sorted(small, key=lambda entry: (entry.name.count("/"), entry.name))[:MAX_FILES]
    beside = {entry.name: _read_text(entry.path) for entry in near if entry.name != script}
    return {script: _read_text(root / script), **beside}


def _read_text(path: Path) -> str:
    """Return the start of a file as text. Bytes that are not UTF-8 are replaced."""
    from anygpu.plan.analyse.job import MAX_BYTES

    with path.open("rb") as file:
        return file.read(MAX_BYTES).decode("utf-8", errors="replace")


def _within_limit(files: dict[str, str]) -> dict[str, str]:
    """Return the files that fit into one request; drop the others."""
    left, kept = MAX_CHARACTERS, {}
    for name, text in files.items():
        if len(text) <= left:
            kept[name] = text
            left -= len(text)
    return kept
