"""Render a job spec as texts that submit it: a shell command, a YAML job file and Python code."""

from typing import NamedTuple

from anygpu.spec.jobspec import JobSpec
from anygpu.spec.render.command_line import shell_command
from anygpu.spec.render.python_text import python_code
from anygpu.spec.render.short_form import short_form
from anygpu.spec.render.yaml_text import yaml_document


class RenderedSpec(NamedTuple):
    """The same spec as a shell command, a YAML document and Python code."""

    cli: str
    yaml: str
    python: str


def render_spec(spec: JobSpec) -> RenderedSpec:
    """Return the texts. Each one, parsed again, gives the same spec."""
    mapping = short_form(spec)
    return RenderedSpec(shell_command(mapping), yaml_document(mapping), python_code(mapping))
