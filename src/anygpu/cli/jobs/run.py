"""`anygpu run`: submit a script, a command or a job file, and follow it."""

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.exits import print_message
from anygpu.cli.jobs.job_file import (
    JobRequest,
    build_job_request,
    check_dataset_path,
    check_requirements_file,
    find_script,
    with_file_positions,
)
from anygpu.errors import AnygpuError, InvalidSpec
from anygpu.sdk.client import Client
from anygpu.spec.flags import OPTIONS_AFTER_SCRIPT

JOB_FILE_SUFFIXES = (".yaml", ".yml", ".toml", ".json")
IS_COMMAND = "_anygpu_command"
WHAT_TO_RUN = ("script", "command", "trainer", "code")
F = TypeVar("F", bound=Callable[..., Any])


class RunCommand(click.Command):
    """A click command that separates anygpu's options from the arguments of the script.

    The script's arguments start at its name or at `--`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit(0)
        return super().parse_args(ctx, self._reorder(ctx, args))

    def _reorder(self, ctx: click.Context, args: list[str]) -> list[str]:
        parser = self.make_parser(ctx)
        options, _, _ = parser.parse_args(list(args))
        target = options.get("target")  # without a target: None, or a marker object of click
        tail = list(target) if isinstance(target, tuple | list) else []
        head = args[: len(args) - len(tail)]
        if head and head[-1] == "--":
            ctx.meta[IS_COMMAND] = True
            return args
        if tail and tail[0].lower().endswith(JOB_FILE_SUFFIXES):
            return [*head, *tail[1:], tail[0]]
        ours, script = split_script_args(tail, ctx)
        return [*head, *ours, "--", *script]


def split_script_args(tail: Sequence[str], ctx: click.Context) -> tuple[list[str], list[str]]:
    """Split the arguments after the script's name into anygpu's options and the script's arguments.

    Only OPTIONS_AFTER_SCRIPT are anygpu's. Everything after `--` belongs to the script.
    """
    ours: list[str] = []
    script: list[str] = []
    words = iter(tail)
    for word in words:
        if word == "--":
            return ours, [*script, *words]
        if word.partition("=")[0] not in OPTIONS_AFTER_SCRIPT:
            script.append(word)
        elif "=" in word:
            ours.append(word)
        elif (value := next(words, None)) is not None:
            ours += [word, value]
        else:
            raise click.BadOptionUsage(word, f"Option {word!r} requires an argument.", ctx)
    return ours, script


def spec_option(*names: str, about: str, many: bool = False) -> Callable[[F], F]:
    return click.option(*names, help=about, multiple=many, default=() if many else None)


@click.command(
    cls=RunCommand,
    name="run",
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
)
@click.argument("target", nargs=-1, type=click.UNPROCESSED)
@spec_option(
    "--name", "-n", about="Name of the job. In other commands, the name means the newest job of that name."
)
@spec_option(
    "--gpu",
    about="GPUs as a count (2), a type (A100), a memory size (24GB), or with a count: A100:8, 24GB:2.",
)
@spec_option("--cpus", about="Number of CPUs.")
@spec_option("--memory", about="Minimum memory of the machine, for example 16GiB.")
@spec_option("--nodes", about="Number of machines. All of them start, or none.")
@spec_option("--launcher", about="How the processes start: torchrun (one for each GPU), or none.")
@spec_option("--env", "-e", about="Environment variable as KEY=VALUE. Repeatable.", many=True)
@spec_option("--secret", about="Name of a stored secret, or VARIABLE=NAME. Repeatable.", many=True)
@spec_option("--tag", "-t", about="Tag for finding the job. Repeatable.", many=True)
@spec_option("--output", "-o", about="Files to keep, as a pattern such as 'runs/**'. Repeatable.", many=True)
@spec_option(
    "--checkpoint", about="Checkpoint files, as a pattern such as 'ckpt/*.pt'. Repeatable.", many=True
)
@spec_option("--checkpoint-every", about="How often to save checkpoints, for example 5m.")
@spec_option(
    "--resume-arg",
    about="Argument that a resumed script gets; {path} stands for the checkpoint. Repeatable.",
    many=True,
)
@spec_option(
    "--requirements",
    "-r",
    about="Requirements file, one requirement, or `auto` for the packages of your Python. Repeatable.",
    many=True,
)
@spec_option("--setup", about="Shell command to run before the script. Repeatable.", many=True)
@spec_option("--trainer", about="Use a trainer instead of a script: tabular, yolo, ./my_trainer.py:Mine.")
@spec_option("--config", "-c", about="Trainer setting, for example -c epochs=50. Repeatable.", many=True)
@spec_option("--dataset", about="Dataset: a path or a URL.")
@spec_option("--timeout", about="Stop the job after this time, for example 6h.")
@spec_option("--max-cost", about="Stop the job before it costs more than this, in dollars.")
@spec_option(
    "--deadline",
    about="Deadline: 6h from now, or a date and time. Spot machines are used only while they do not endanger it.",
)
@spec_option("--max-retries", about="Maximum number of retries after failures that the script did not cause.")
@spec_option(
    "--on", about="Where to run: a strategy (cheapest, fastest), or backends in order of preference."
)
@spec_option("--region", about="Region of the machine, as its cloud names it, for example us-east-1.")
@click.option(
    "--paid/--no-paid",
    default=None,
    help="Allow or forbid machines that cost money. Default: allowed if --max-cost, --region or --on (other than"
    " queue) is given, here or in the job file; otherwise only your own machines are used.",
)
@spec_option(
    "--move",
    about="If a better offer appears while the job runs: never (ignore it), advise (show it) or act (move the job).",
)
@spec_option("--priority", about="Jobs with a higher number start first.")
@spec_option("--python", about="Python interpreter. Default: the one of the active environment.")
@spec_option("--workdir", about="Directory in which the job runs. Default: the current directory.")
@click.option(
    "--snapshot",
    is_flag=True,
    default=None,
    help="Run in a copy of the working directory, on this computer too.",
)
@spec_option(
    "--set",
    "sets",
    about="Any field of the job spec, for example checkpoint.keep=5; with a trainer, also its settings.",
    many=True,
)
@spec_option("--key", about="Idempotency key: submitting again with the same key returns the same job.")
@click.option("--no-check", is_flag=True, help="Do not check a trainer's dataset before uploading it.")
@click.option("--no-workdir", is_flag=True, help="Run in an empty directory.")
@click.option("--detach", "-d", is_flag=True, help="Submit, print the job's id, and exit.")
@click.option("--dry-run", is_flag=True, help="Print the job spec without submitting it.")
@click.option("--raw", is_flag=True, help="Print the job's output with all its terminal control sequences.")
@json_option
@context_option
@click.pass_context
def run_command(
    context: click.Context, /, target: tuple[str, ...], as_json: bool, context_name: str, **flags: Any
) -> None:
    """Run a script, a command or a job file, and follow its output.

    \b
      anygpu run train.py --epochs 3          arguments after the script belong to the script
      anygpu run --gpu A100 train.py          anygpu's options come before the script
      anygpu run job.yaml --max-cost 10       a job file; options override it
      anygpu run -- make train                any command
      anygpu run --trainer tabular --dataset penguins.csv --set target=species

    The exit code is the script's exit code.
    """
    request = build_job_request(target, flags, is_command=bool(context.meta.get(IS_COMMAND)))
    if not target and not any(request.document.data.get(kind) for kind in WHAT_TO_RUN):
        message = "Nothing to run. Name a script, a job file or a --trainer, or put a command after `--`."
        raise click.UsageError(message, context)
    for text in request.notes:
        print_message(text)
    if flags["dry_run"]:
        _print_spec(request, as_json)
        return
    _check_files(request)
    context.exit(_submit(request, context_name, detach=flags["detach"], raw=flags["raw"], as_json=as_json))


def _check_files(request: JobRequest) -> None:
    """Raise NotFound if a file that the job needs does not exist on this computer."""
    from anygpu.sdk.upload.workdir import has_uploaded_files

    data = request.document.data
    if request.sends_files and not has_uploaded_files(data):
        find_script(data)
        check_requirements_file(data)
        check_dataset_path(data)


def _print_spec(request: JobRequest, as_json: bool) -> None:
    from anygpu.cli.terminal.output import dump_yaml, emit_json
    from anygpu.spec.load import from_document

    spec = from_document(request.document).model_dump(mode="json", exclude_defaults=True)
    if as_json:
        emit_json(spec)
        return
    click.echo(dump_yaml(spec), nl=False)


def _submit(request: JobRequest, context_name: str, *, detach: bool, raw: bool, as_json: bool) -> int:
    from anygpu.cli.jobs.consent import ConsentingSubmission
    from anygpu.cli.jobs.job_file import home_directory
    from anygpu.cli.jobs.results import bring_results_home
    from anygpu.cli.jobs.warnings import may_need_gpu, submission_warnings
    from anygpu.cli.terminal.transfer import TransferLine
    from anygpu.sdk.context import find_context
    from anygpu.sdk.upload.submission import submit_job
    from anygpu.sdk.upload.workdir import without_workdir

    client, since_ns = connect(context_name, start=True), time.time_ns()
    is_local, spec = find_context(context_name).is_embedded, request.document.data
    for text in submission_warnings(client.another(), spec):
        print_message(text)
    if not as_json and request.sends_files and may_need_gpu(spec):
        from anygpu.cli.jobs.plan import missing_gpu_warnings

        for text in missing_gpu_warnings(client.another(), request.document):
            print_message(text)
    submit = ConsentingSubmission(client.submit, asks=not as_json)
    try:
        submitted = (
            submit_job(
                client,
                spec,
                submit,
                server_is_local=is_local,
                check=request.checks_dataset,
                open_progress=lambda total: TransferLine("Uploading", total),
                note=print_message,
            )
            if request.sends_files
            else submit(without_workdir(spec))
        )
    except InvalidSpec as error:
        raise with_file_positions(error, request.document) from None
    if detach:
        return print_submission(client, submitted, as_json)
    directory = home_directory(request.document.data).absolute()

    def bring_home() -> None:
        bring_results_home(client.another(), submitted["id"], directory, since_ns, as_json=as_json)

    return follow_job(client, submitted, as_json, raw=raw, on_end=bring_home)


def print_submission(client: Client, submitted: dict[str, Any], as_json: bool) -> int:
    """Print the submitted job's id and return the exit code."""
    from anygpu.cli.terminal.output import emit_json

    if as_json:
        emit_json(submitted)
    else:
        print(submitted["id"])
        state = "Submitted" if submitted.get("created", True) else "Already submitted"
        follow = f"Follow it with `anygpu logs -f {submitted['id']}`"
        print_message(f"{state}. {follow} or at {client.job_page(submitted['id'])}")
    return 0


def follow_job(
    client: Client,
    submitted: dict[str, Any],
    as_json: bool,
    *,
    raw: bool = False,
    on_end: Callable[[], None] = lambda: None,
) -> int:
    """Follow a submitted job until it ends and return the exit code. `on_end` is called after the job's end.

    A message about an error names the job.
    """
    from anygpu.cli.jobs.follow import JobFollower, follow_as_json

    try:
        if as_json:
            return follow_as_json(client, submitted, on_end=on_end)
        print_message(f"Job page: {client.job_page(submitted['id'])}")
        follower = JobFollower(client, submitted["id"], raw=raw)
        code = follower.run()
        if follower.ending.status:
            on_end()
    except AnygpuError:
        print_message(
            f"Job {submitted['id']} was submitted. Follow it with `anygpu logs -f {submitted['id']}`."
        )
        raise
    return code
