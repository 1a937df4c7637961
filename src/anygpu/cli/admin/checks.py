"""The checks of `anygpu doctor` for a first job: its Python, GPU driver, dataset, backends and free machines."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from anygpu.cli.terminal import formatting
from anygpu.errors import AnygpuError, InvalidSpec
from anygpu.sdk.client import Client

OK, WARN, FAIL = "ok", "warn", "fail"
QUERY_TIMEOUT_S = 60
MAX_PROBLEMS = 5
INTERPRETER_QUERY = """
import importlib.util, json, sys
print(json.dumps({"version": sys.version.split()[0], "pip": importlib.util.find_spec("pip") is not None}))
"""


class CheckResult(NamedTuple):
    """The result of one check: one line in the output of `anygpu doctor`."""

    state: str
    what: str
    said: str
    advice: str = ""


def check_interpreter(python: str) -> Iterator[CheckResult]:
    """Check the Python with which scripts run, and that something can install requirements for it."""
    try:
        found = json.loads(_output([python, "-I", "-c", INTERPRETER_QUERY]).splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        advice = "Activate another environment, or name an interpreter with `anygpu run --python`."
        yield CheckResult(FAIL, "scripts", f"{python} does not start: {error}", advice)
        return
    yield CheckResult(OK, "scripts", f"run with Python {found['version']} ({python})")
    uv = shutil.which("uv")
    if uv or found["pip"]:
        yield CheckResult(OK, "installer", f"requirements are installed with {uv or 'pip'}")
    else:
        advice = "Install uv, or pip for this Python, if your jobs have requirements."
        yield CheckResult(WARN, "installer", f"{python} has no pip, and there is no uv", advice)


def check_torch(python: str) -> Iterator[CheckResult]:
    """Check that torch, if the interpreter has it, works with the GPU and driver of this computer."""
    if shutil.which("nvidia-smi") is None:
        return
    from anygpu.agent.prepare import torch_check

    problem, warning = torch_check.check_torch(python, torch_check.command_output(dict(os.environ)))
    if problem:
        yield CheckResult(FAIL, "torch", problem)
    elif warning:
        yield CheckResult(WARN, "torch", warning, "Install a build of torch with CUDA.")
    else:
        yield CheckResult(OK, "torch", "no conflict with the GPU driver found")


def driver_advice(driver: str) -> str:
    """Return what to do about a driver that is too old for the newest torch; empty if it is new enough."""
    from anygpu.agent.prepare.torch_check import CUDA_BY_DRIVER, MIN_DRIVER

    major, newest = driver.split(".")[0], max(MIN_DRIVER.values())
    if not major.isdecimal() or int(major) >= newest:
        return ""
    cuda = next((version for oldest, version in CUDA_BY_DRIVER if int(major) >= oldest), "10")
    return (
        f"Driver {driver} supports CUDA {cuda}. torch 2.11 and newer need driver {newest}:"
        " update the driver, or pin torch<2.11."
    )


def check_data(dataset: str, trainer: str, config: Mapping[str, Any]) -> Iterator[CheckResult]:
    """Check the format of a dataset on this computer, and the settings and packages of the trainer that reads it."""
    if trainer:
        yield from _check_trainer(dataset, trainer, config)
        return
    from anygpu.cli.admin.dataset import inspect_dataset
    from anygpu.trainers import TrainerError

    if not Path(dataset).exists():
        yield CheckResult(FAIL, "dataset", f"there is no file or folder {dataset!r}", "Check the path.")
        return
    try:
        found = inspect_dataset(Path(dataset), "", decode=False)
    except TrainerError as error:
        yield CheckResult(
            FAIL, "dataset", _first_lines(str(error)), f"`anygpu dataset check {dataset}` lists all."
        )
    else:
        yield CheckResult(OK, "dataset", f"{dataset}: {found['summary']}")


def _check_trainer(dataset: str, trainer: str, config: Mapping[str, Any]) -> Iterator[CheckResult]:
    from anygpu.sdk.upload.submission import check_training
    from anygpu.spec import from_mapping
    from anygpu.spec.checks.trainer import framework_modules

    spec = {"trainer": trainer, "config": dict(config), **({"dataset": dataset} if dataset else {})}
    try:
        check_training(spec)
        job = from_mapping(spec)
    except InvalidSpec as error:
        text = "; ".join(f"{each.place}: {each.message}" for each in error.problems[:MAX_PROBLEMS])
        advice = f"Correct the data or the settings. `anygpu trainer show {trainer}` lists the settings."
        yield CheckResult(FAIL, "trainer", text, advice)
        return
    yield CheckResult(
        OK, "trainer", f"{trainer} can read {dataset}" if dataset else f"{trainer} is configured"
    )
    yield from _check_modules(trainer, framework_modules(job))


def _check_modules(trainer: str, modules: Mapping[str, str]) -> Iterator[CheckResult]:
    from importlib.util import find_spec

    from anygpu.installation import install_hint

    missing = {module: extra for module, extra in modules.items() if find_spec(module) is None}
    if missing:
        text = f"{trainer} needs {', '.join(missing)}, not installed on this computer; rented machines install them"
        yield CheckResult(WARN, "packages", text, install_hint(*dict.fromkeys(missing.values())))


def check_backends(client: Client) -> Iterator[CheckResult]:
    """Check credentials, quota, balance and offers of every backend, and the free GPUs and CPUs of own machines."""
    for each in client.backends.list()["backends"]:
        try:
            yield backend_result(client.backends.check(each["name"]))
        except AnygpuError as error:
            yield CheckResult(FAIL, "backend", f"{each['name']}: {error.message}", error.hint)
    yield from slot_results(client.queue().get("slots") or ())


def backend_result(check: Mapping[str, Any]) -> CheckResult:
    name, balance = check["name"], check["balance_microusd"]
    if not check["valid"]:
        advice = f"Correct it with `anygpu backend add {name} --change`, or remove it with `anygpu backend rm {name}`."
        return CheckResult(FAIL, "backend", f"{name}: {check['why'] or 'cannot be used'}", advice)
    facts = [
        check["quota"] and f"quota: {check['quota']}",
        balance is not None and f"balance: {formatting.money(balance)}",
        formatting.plural(check["offers"], "offer"),
    ]
    text = f"{name}: {', '.join(str(fact) for fact in facts if fact)}"
    if balance is not None and balance <= 0:
        return CheckResult(WARN, "backend", text, "The account has no money left. Add some at the provider.")
    if not check["offers"]:
        reason = check["refused_why"] or "it offers no machine now"
        return CheckResult(WARN, "backend", f"{text}: {reason}", "Check its limits and regions.")
    return CheckResult(OK, "backend", text)


def slot_results(slots: Sequence[Mapping[str, Any]]) -> Iterator[CheckResult]:
    for slot in slots:
        if slot.get("free") is None:
            continue
        place = " ".join(filter(None, (slot["backend"], slot["name"])))
        if slot["free"] > 0:
            yield CheckResult(OK, "slots", f"{place}: {formatting.plural(slot['free'], 'job')} can start now")
        else:
            advice = "`anygpu queue` shows what runs. Jobs wait until a slot is free."
            yield CheckResult(WARN, "slots", f"{place}: {slot['reason'] or 'no slot is free'}", advice)


def _output(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, check=True)
    return done.stdout


def _first_lines(text: str) -> str:
    return "; ".join(text.splitlines()[:MAX_PROBLEMS])
