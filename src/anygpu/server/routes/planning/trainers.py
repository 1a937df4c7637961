"""Trainers and their settings."""

import functools
import importlib.util
from typing import Any

from anygpu.api.specs import TrainerDetails, TrainerList
from anygpu.installation import find_installation
from anygpu.server.http.route import api_router
from anygpu.server.services import CallerDep

router = api_router("/api/v1/trainers", tag="trainers")


@router.get("", response_description="Built-in trainers, then those of installed packages.")
def list_trainers(caller: CallerDep) -> TrainerList:  # in a thread, because it imports every trainer
    """List the trainers with their settings as JSON schemas. No framework is imported."""
    return TrainerList(trainers=[_describe(name) for name in _trainer_names()])


@functools.cache
def _trainer_names() -> tuple[str, ...]:
    from anygpu.trainers import registry

    return tuple(registry.names())


@functools.cache
def _settings(name: str) -> dict[str, Any]:
    from anygpu.trainers import registry
    from anygpu.trainers.settings_schema import settings_schema

    return settings_schema(registry.find(name))


def _describe(name: str) -> TrainerDetails:
    from anygpu.trainers import registry

    if not registry.is_built_in(name):
        return _plugin(name)
    kind = registry.find(name)
    missing = [module for module in kind.needs if importlib.util.find_spec(module) is None]
    return TrainerDetails(
        name=name,
        title=kind.title or name,
        description=kind.description,
        built_in=True,
        tasks=list(kind.accepts.tasks),
        dataset=kind.dataset_format,
        licence=kind.licence,
        licence_note=kind.licence_note,
        extra=kind.extra,
        installed=not missing,
        install=find_installation().extra_command(kind.extra) if missing else "",
        settings=_settings(name),
    )


def _plugin(name: str) -> TrainerDetails:
    """Describe a trainer of an installed package by its name only: the server must not run its code."""
    return TrainerDetails(
        name=name,
        title=name,
        description="A trainer of a package that is installed on the server.",
        built_in=False,
        tasks=[],
        dataset="",
        licence="",
        licence_note="",
        extra="",
        installed=True,
        install="",
        settings={"type": "object", "properties": {}, "required": [], "additionalProperties": True},
    )
