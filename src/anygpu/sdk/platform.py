"""`Platform`, the main class of the Python client.

platform = Platform()
job = platform.submit(code=open("train.py").read(), requirements=Requirements(gpu_memory_gb=16))
for status in job.monitor():
    print(status.backend, status.progress, status.cost)
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from anygpu.sdk import context as contexts
from anygpu.sdk.client import Client
from anygpu.sdk.context import Context
from anygpu.sdk.http import Endpoint, EndpointLocator
from anygpu.sdk.job import Job
from anygpu.sdk.upload.requirements import Requirements, placement_from


class Platform:
    """A server to submit jobs to: ANYGPU_URL, else the current context, else the server on this computer.

    The server on this computer is started if it is not running. `url` may be a list of several servers that share a
    database, separated by commas; if one fails, another is used.
    """

    def __init__(
        self, url: str = "", token: str = "", *, context: str = "", state: str | Path | None = None
    ) -> None:
        self._context = Context("argument", url, token) if url else contexts.find_context(context)
        if state is not None:
            self._context = Context(contexts.EMBEDDED)
        self.client = Client(locator_for(self._context, Path(state) if state is not None else None))

    def submit(
        self,
        *,
        code: str | None = None,
        script: str | Path | None = None,
        command: str | list[str] | None = None,
        requirements: Requirements | None = None,
        preferences: Mapping[str, Any] | None = None,
        workdir: str | Path | Mapping[str, Any] | None = None,
        packages: Sequence[str] | str | None = None,
        **spec: Any,
    ) -> Job:
        """Submit a job and return at once.

        `packages` are Python packages to install, or the path of a requirements file. `workdir` is a directory, or
        the section of this name of the job spec. `spec` takes other fields of the job spec, such as `name` or `env`.
        """
        from anygpu.sdk.upload.submission import submit_job

        what = {"code": code, "script": None if script is None else str(script), "command": command}
        target = {key: value for key, value in what.items() if value is not None}
        needs = requirements.spec() if requirements is not None else {}
        wishes = {"placement": placement_from(preferences or {})}
        section = {"workdir": dict(workdir)} if isinstance(workdir, Mapping) else {}
        installs = {} if packages is None else {"requirements": _as_list(packages)}
        submitted = submit_job(
            self.client,
            merge_specs(needs, wishes, target, installs, section, spec),
            workdir=None if isinstance(workdir, Mapping) else workdir,
            server_is_local=self._context.is_embedded,
        )
        return Job(self.client, submitted["id"])

    def job(self, job_id: str) -> Job:
        """Return the job with this id, start of an id, or name; `last` means the newest job."""
        return Job(self.client, self.client.job(job_id)["id"])

    def jobs(self, **filters: Any) -> Iterator[Job]:
        """Yield jobs, newest first. Filters: status, phase, name, tag, backend, person, q, after_ms, before_ms."""
        cursor: str | None = None
        while True:
            page = self.client.jobs(**filters, cursor=cursor)
            yield from (Job(self.client, each["id"]) for each in page["jobs"])
            cursor = page.get("next_cursor")
            if not cursor:
                return


def _as_list(packages: Sequence[str] | str) -> list[str] | str:
    return packages if isinstance(packages, str) else list(packages)


def locator_for(context: Context, state: Path | None = None) -> EndpointLocator:
    """Return a function that finds the context's server.

    The server on this computer is started if necessary.
    """
    if not context.is_embedded:
        return contexts.locator_of(context)

    def here() -> Endpoint:
        from anygpu.sdk import embedded

        return embedded.ensure_running(state or embedded.state_dir()).endpoint

    return here


def merge_specs(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Merge mappings recursively. Values of later mappings replace earlier ones."""
    whole: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, Mapping) and isinstance(whole.get(key), Mapping)
            whole[key] = merge_specs(whole[key], value) if both else value
    return {key: value for key, value in whole.items() if value not in (None, {})}
