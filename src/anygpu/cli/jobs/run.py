"""`anygpu run`: submit a script, a command or a job file, and follow it."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.jobs.job_file import (
    JobRequest,
    build_job_request,
    check_requirements_file,
    find_script,
    with_file_positions,
)
from anygpu.errors import InvalidSpec

OPTIONS_AFTER_SCRIPT = ("--on", "--max-cost", "--deadline")
JOB_FILE_SUFFIXES = (".yaml", ".yml", ".toml", ".json")
IS_COMMAND = "_anygpu_command"
F = TypeVar("F", bound=Callable[..., Any])


class RunCommand(click.Command):
    """Knows where our options end: at the script, whose own options these then are, or at `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit(0)
        return super().parse_args(ctx, self._reorder(ctx, args))

    def _reorder(self, ctx: click.Context, args: list[str]) -> list[str]:
        parser = self.make_parser(ctx)
        options, _, _ = parser.parse_args(list(args))
        given = options.get("target")  # what is not given is None, or a mark of click's own
        tail = list(given) if isinstance(given, tuple | list) else []
        head = args[: len(args) - len(tail)]
        if head and head[-1] == "--":
            ctx.meta[IS_COMMAND] = True
            return args
        if tail and tail[0].lower().endswith(JOB_FILE_SUFFIXES):
            return [*head, *tail[1:], tail[0]]
        ours, script = split_script_args(tail, ctx)
        return [*head, *ours, "--", *script]


def split_script_args(tail: Sequence[str], ctx: click.Context) -> tuple[list[str], list[str]]:
    """Where a job may run and what it may cost is ours to read even after the script; `--` keeps it the script's."""
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
@spec_option("--name", "-n", about="What to call the job; the newest of a name answers to it.")
@spec_option("--gpu", about="GPUs: a count, a kind, or both: 1, A100, A100:8, 24GB:2.")
@spec_option("--cpus", about="Processors.")
@spec_option("--memory", about="Memory, such as 16GiB.")
@spec_option("--env", "-e", about="KEY=VALUE for the job's environment; may be repeated.", many=True)
@spec_option("--secret", about="A stored secret's name, or VARIABLE=NAME; may be repeated.", many=True)
@spec_option("--tag", "-t", about="A word to find the job by; may be repeated.", many=True)
@spec_option(
    "--output", "-o", about="Files to keep, as a pattern such as 'runs/**'; may be repeated.", many=True
)
@spec_option(
    "--checkpoint", about="Checkpoint files, as a pattern such as 'ckpt/*.pt'; may be repeated.", many=True
)
@spec_option("--checkpoint-every", about="How often checkpoints are saved, such as 5m.")
@spec_option("--resume-arg", about="Argument a resumed script gets; {path} is the checkpoint.", many=True)
@spec_option(
    "--requirements", "-r", about="A requirements file, or a requirement; may be repeated.", many=True
)
@spec_option("--setup", about="A shell command to run before; may be repeated.", many=True)
@spec_option(
    "--trainer", about="Train with a trainer instead of a script: tabular, yolo, ./my_trainer.py:Mine."
)
@spec_option("--config", "-c", about="A setting of the trainer: -c epochs=50; may be repeated.", many=True)
@spec_option("--dataset", about="The data: a path, a URL, or name@version.")
@spec_option("--timeout", about="End the job after this long, such as 6h.")
@spec_option("--max-cost", about="End the job before it costs more, in dollars.")
@spec_option(
    "--deadline", about="When it must be done: 6h from now, or an instant. Spot only while that is safe."
)
@spec_option("--max-retries", about="How often to try again after failures that are not the script's.")
@spec_option("--on", about="Where: a strategy (cheapest, fastest), or backends in order of preference.")
@spec_option("--move", about="When it is better done elsewhere while it runs: never, advise or act.")
@spec_option("--priority", about="Higher goes first.")
@spec_option("--python", about="The interpreter. Default: the active environment's.")
@spec_option("--workdir", about="The directory that travels with the job. Default: this one.")
@spec_option(
    "--set",
    "sets",
    about="Any field of the spec: --set checkpoint.keep=5; any other word is a setting of the trainer.",
    many=True,
)
@spec_option("--key", about="Idempotency key: the same key is the same job.")
@click.option("--no-check", is_flag=True, help="Do not look at a trainer's dataset before it is sent.")
@click.option("--no-workdir", is_flag=True, help="Send no files.")
@click.option("--detach", "-d", is_flag=True, help="Submit, print the id, and leave.")
@click.option("--dry-run", is_flag=True, help="Print the spec that would be submitted.")
@json_option
@context_option
@click.pass_context
def run_command(
    context: click.Context, /, target: tuple[str, ...], as_json: bool, context_name: str, **flags: Any
) -> None:
    """Run a script, a command or a job file, and follow it.

    \b
      anygpu run train.py --epochs 3          everything after the script is the script's
      anygpu run --gpu A100 train.py          our options come before it
      anygpu run job.yaml --max-cost 10       a job file; options win over it
      anygpu run -- make train                any command
      anygpu run --trainer tabular --dataset penguins.csv --set target=species

    The exit code is the script's own.
    """
    if not target and not flags["trainer"]:
        said = "Nothing to run: give a script, a job file, a --trainer, or -- and a command."
        raise click.UsageError(said, context)
    wanted = build_job_request(target, flags, is_command=bool(context.meta.get(IS_COMMAND)))
    if flags["dry_run"]:
        _print_spec(wanted, as_json)
        return
    if wanted.sends_files:
        find_script(wanted.document.data)
        check_requirements_file(wanted.document.data)
    context.exit(_submit(wanted, context_name, detach=flags["detach"], as_json=as_json))


def _print_spec(wanted: JobRequest, as_json: bool) -> None:
    from anygpu.cli.terminal.output import emit_json
    from anygpu.spec.load import from_document

    spec = from_document(wanted.document).model_dump(mode="json", exclude_defaults=True)
    if as_json:
        emit_json(spec)
        return
    import yaml

    click.echo(yaml.safe_dump(spec, sort_keys=False, allow_unicode=True), nl=False)


def _submit(wanted: JobRequest, context_name: str, *, detach: bool, as_json: bool) -> int:
    from anygpu.cli.exits import print_message
    from anygpu.cli.jobs.warnings import submission_warnings
    from anygpu.sdk.context import find_context
    from anygpu.sdk.submission import prepare_spec

    client = connect(context_name, start=True)
    try:
        here = find_context(context_name).is_embedded
        spec = (
            wanted.document.data
            if not wanted.sends_files
            else prepare_spec(client, wanted.document.data, server_is_local=here, check=wanted.checks_dataset)
        )
        submitted = client.submit(spec)
    except InvalidSpec as error:
        raise with_file_positions(error, wanted.document) from None
    for text in submission_warnings(client.another(), wanted.document.data):
        print_message(text)
    if detach:
        return print_submission(submitted, as_json)
    return follow_job(client, submitted, as_json)


def print_submission(submitted: dict[str, Any], as_json: bool) -> int:
    from anygpu.cli.terminal.output import emit_json

    if as_json:
        emit_json(submitted)
    else:
        print(submitted["id"])
        told = "submitted" if submitted.get("created", True) else "already submitted"
        print(f"anygpu: {told} · anygpu logs -f {submitted['id']}", file=sys.stderr)
    return 0


def follow_job(client: Any, submitted: dict[str, Any], as_json: bool) -> int:
    if as_json:
        from anygpu.cli.jobs.follow import follow_as_json

        return follow_as_json(client, submitted)
    from anygpu.cli.jobs.follow import JobFollower

    return JobFollower(client, submitted["id"]).run()
