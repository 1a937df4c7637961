"""Every command: its name, where it lives, and its line in the help."""

from importlib import import_module
from typing import NamedTuple

import click


class Entry(NamedTuple):
    name: str
    about: str


COMMANDS = (
    Entry("run", "run a script, a command or a job file, and follow it"),
    Entry("plan", "where a job could run, how long, for how much, and why"),
    Entry("explain", "why a job ran where it did, and how right the prediction was"),
    Entry("simulate", "what a job with a deadline would have cost on recorded spot"),
    Entry("ls", "list jobs"),
    Entry("show", "tell everything about a job"),
    Entry("logs", "print what a job printed"),
    Entry("watch", "a job's curves, progress and telemetry, live"),
    Entry("cancel", "end a job"),
    Entry("resume", "go on from a job's newest checkpoint"),
    Entry("fetch", "download what a job made"),
    Entry("events", "what happened, as it happens"),
    Entry("queue", "what waits, for what, and where it stands"),
    Entry("accuracy", "how far predicted times and costs were from the real ones"),
    Entry("migrate", "move a job to another backend"),
    Entry("ssh", "a shell on the machine of a job"),
    Entry("dataset", "check, count, split and convert data before training"),
    Entry("trainer", "what can train without a script of yours"),
    Entry("backend", "places to rent or use machines: clouds, boxes"),
    Entry("host", "boxes of your own, over SSH"),
    Entry("catalog", "what GPUs cost where, as of when"),
    Entry("sweep", "end what nobody owns, now"),
    Entry("machine", "machines at the providers, and what they cost"),
    Entry("cloud-sim", "a simulated cloud on this computer, to rehearse with"),
    Entry("up", "run the server in the foreground"),
    Entry("down", "stop the server of this machine"),
    Entry("open", "open the server's page in a browser"),
    Entry("login", "use a server elsewhere"),
    Entry("context", "the servers you are logged in to"),
    Entry("token", "tokens for programs and people"),
    Entry("secret", "values jobs need and nobody should see"),
    Entry("gc", "apply retention: remove what is old"),
    Entry("config", "settings and where each came from"),
    Entry("doctor", "check this machine and the server"),
    Entry("demo", "a minute's tour: rent, lose the machine, go on elsewhere"),
    Entry("version", "versions of the client and of the server"),
)
SECTIONS = {
    "Jobs": (
        "run",
        "plan",
        "explain",
        "simulate",
        "ls",
        "show",
        "logs",
        "watch",
        "cancel",
        "resume",
        "fetch",
        "events",
        "queue",
        "accuracy",
        "migrate",
        "ssh",
        "trainer",
    ),
    "Data": ("dataset",),
    "Machines": ("backend", "host", "catalog", "machine", "sweep", "cloud-sim"),
    "Server": ("up", "down", "open", "login", "context", "token", "secret", "gc"),
    "Help": ("config", "doctor", "demo", "version"),
}


def load(name: str) -> click.Command | None:
    """The command itself, imported now. Its module has its name, with `_` for `-`."""
    if not any(entry.name == name for entry in COMMANDS):
        return None
    command: click.Command = import_module(f"anygpu.cli.{name.replace('-', '_')}").command
    return command
