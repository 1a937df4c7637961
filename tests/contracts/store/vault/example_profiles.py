"""A profile for tests."""

from anygpu.store.vault.profiles import Profiles
from anygpu.testing.samples.jobs import LAB

CREDENTIALS = {"api_key": "very-secret", "other": "also-secret"}


async def put(profiles: Profiles, name: str = "cloud", **changed: object) -> None:
    values = {
        "kind": "lambda",
        "options": {"regions": ["eu"], "max_machines": 2},
        "credentials": CREDENTIALS,
        "at_ms": 5,
    }
    await profiles.put(LAB, name, **{**values, **changed})  # type: ignore[arg-type]
