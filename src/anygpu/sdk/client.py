"""The HTTP API as methods of `Client`. Each method returns the JSON of the API's response."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from anygpu.errors import AnygpuError, NotFound
from anygpu.sdk.http import EndpointLocator, ServerConnection
from anygpu.sdk.stream import PATIENCE_S, START, MessageStream, StreamCursor

ROOT = "/api/v1"
Json = dict[str, Any]


class BackendsClient:
    """The backend routes of the API, available as `client.backends`."""

    def __init__(self, http: ServerConnection) -> None:
        self._http = http

    def list(self) -> Json:
        return self._request("GET", "")

    def kinds(self) -> Json:
        """Return the kinds of backends with their options and credentials."""
        return self._request("GET", "/kinds")

    def add(
        self,
        name: str,
        kind: str,
        options: Mapping[str, Any] | None = None,
        credentials: Mapping[str, str | None] | None = None,
        *,
        replace: bool = False,
    ) -> Json:
        """Add a backend, or with `replace` change an existing one.

        With `replace`, credentials that are not given are kept, and a credential with the value None is
        removed.
        """
        body = {
            "name": name,
            "kind": kind,
            "options": dict(options or {}),
            "credentials": dict(credentials or {}),
            "replace": replace,
        }
        return self._request("POST", "", body=body, repeatable=replace)

    def check(self, name: str) -> Json:
        return self._request("POST", f"/{quote(name, safe='')}/check", repeatable=True)

    def remove(self, name: str, *, force: bool = False) -> Json:
        query = {"force": "true"} if force else None
        return self._request("DELETE", f"/{quote(name, safe='')}", query=query)

    def rotate(self, *, new_key: bool = True) -> Json:
        """Encrypt every stored credential and secret again. Only operators may do this."""
        return self._request("POST", "/rotate", query={"new_key": "true" if new_key else "false"})

    def _request(self, method: str, path: str, **more: Any) -> Json:
        answer: Json = self._http.request(method, f"{ROOT}/backends{path}", **more).json()
        return answer


class Client:
    """A client of a server's HTTP API.

    Not thread-safe: call `another()` to get a client for another thread.
    """

    def __init__(self, locate: EndpointLocator, *, http: ServerConnection | None = None) -> None:
        self._locate = locate
        self.http = http or ServerConnection(locate)
        self.backends = BackendsClient(self.http)

    def another(self) -> "Client":
        return Client(self._locate, http=self.http.another())

    def submit(self, spec: Mapping[str, Any], *, key: str = "") -> Json:
        """Submit a job. A request repeated with the same idempotency `key` creates no second job.

        The default key is the `idempotency_key` of the spec, else a random one.
        """
        headers = {"Idempotency-Key": key or str(spec.get("idempotency_key") or new_key())}
        return self._post(f"{ROOT}/training", dict(spec), headers=headers, repeatable=True)

    def jobs(self, **filters: Any) -> Json:
        return self._get(f"{ROOT}/training", filters)

    def job(self, job_id: str) -> Json:
        return self._get(_job_path(job_id))

    def cancel(self, job_id: str) -> Json:
        return self._post(_job_path(job_id, "cancel"), repeatable=True)

    def edit(self, job_id: str, **changes: Any) -> Json:
        """Change `name`, `tags`, `add_tags`, `remove_tags` or `notes` of a job, also after its end."""
        return self._patch(_job_path(job_id), changes)

    def counts(self, **filters: Any) -> Json:
        """Return how many jobs match the filters, by status."""
        return self._get(f"{ROOT}/training/counts", filters)

    def summary(self) -> Json:
        """Return what the project does and spends now."""
        return self._get(f"{ROOT}/summary")

    def start(self, job_id: str) -> Json:
        return self._post(_job_path(job_id, "start"), repeatable=True)

    def delete(self, job_id: str) -> None:
        self.http.request("DELETE", _job_path(job_id))

    def resume(self, job_id: str, overrides: Mapping[str, Any] | None = None, *, key: str = "") -> Json:
        headers = {"Idempotency-Key": key or new_key()}
        return self._post(
            _job_path(job_id, "resume"), dict(overrides or {}), headers=headers, repeatable=True
        )

    def logs(
        self,
        job_id: str,
        *,
        attempt: int | None = None,
        node: int | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> tuple[bytes, int, int]:
        """Return log bytes, the offset after these bytes, and the number of the attempt that wrote them."""
        query = {"attempt": attempt, "node": node, "offset": offset, "limit": limit}
        answer = self.http.request("GET", _job_path(job_id, "logs"), query=query)
        end = int(answer.headers.get("x-log-start", offset)) + len(answer.data)
        return answer.data, end, int(answer.headers.get("x-log-attempt", attempt or 0))

    def log_lines(
        self,
        job_id: str,
        *,
        attempt: int | None = None,
        node: int | None = None,
        first: int = 1,
        count: int = 200,
    ) -> Json:
        """Return `count` lines of a log from line `first`; a negative number counts from the end."""
        query = {"attempt": attempt, "node": node, "from": first, "count": count}
        return self._get(_job_path(job_id, "logs/lines"), query)

    def search_log(self, job_id: str, text: str, **options: Any) -> Json:
        """Search a log. The options are those of the route: `attempt`, `node`, `case`, `regex`, `after`, `limit`, …"""
        query = {
            name: str(value).lower() if isinstance(value, bool) else value for name, value in options.items()
        }
        return self._get(_job_path(job_id, "logs/search"), {"q": text, **query})

    def metrics(
        self, job_id: str, *, names: Sequence[str] = (), points: int = 1000, attempt: int | None = None
    ) -> Json:
        query = {"name": list(names) or None, "points": points, "attempt": attempt}
        return self._get(_job_path(job_id, "metrics"), query)

    def metrics_summary(self, job_id: str) -> Json:
        """Return all metrics of all attempts with their extremes and last values, without points."""
        return self._get(_job_path(job_id, "metrics/summary"))

    def metrics_history(
        self,
        job_id: str,
        names: Sequence[str],
        *,
        points: int = 1000,
        attempt: int | None = None,
        from_step: int | None = None,
        to_step: int | None = None,
    ) -> Json:
        """Return points of the named metrics in every attempt, as lists of steps, times and values."""
        query = {"name": list(names), "points": points, "attempt": attempt}
        return self._get(
            _job_path(job_id, "metrics/history"), {**query, "from_step": from_step, "to_step": to_step}
        )

    def telemetry(
        self,
        job_id: str,
        *,
        points: int = 300,
        attempt: int | None = None,
        node: int | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
    ) -> Json:
        """Return the stored use of GPUs, CPU, memory, disk and network in every attempt."""
        query = {"points": points, "attempt": attempt, "node": node, "from_ms": from_ms, "to_ms": to_ms}
        return self._get(_job_path(job_id, "telemetry"), query)

    def events(self, job_id: str, *, after: int = 0, limit: int | None = None) -> Json:
        return self._get(_job_path(job_id, "events"), {"after": after, "limit": limit})

    def checkpoints(self, job_id: str) -> list[Json]:
        return list(self._get(_job_path(job_id, "checkpoints"))["checkpoints"])

    def artifacts(self, job_id: str) -> list[Json]:
        return list(self._get(_job_path(job_id, "artifacts"))["artifacts"])

    def read_artifact(self, job_id: str, name: str) -> bytes:
        """Return the content of an output file. For large files, use `Job.fetch`."""
        return self.http.request("GET", _job_path(job_id, f"artifacts/{quote(name)}")).data

    def code_files(self, job_id: str, *, limit: int | None = None) -> Json:
        """Return the list of files of the snapshot that the job runs."""
        return self._get(_job_path(job_id, "code"), {"limit": limit})

    def stream(
        self,
        job_id: str,
        *,
        include: Sequence[str] = (),
        cursor: StreamCursor = START,
        node: int = 0,
        patience_s: float = PATIENCE_S,
        on_break: Callable[[AnygpuError], None] = lambda _: None,
    ) -> MessageStream:
        """Follow a job. `node` is the machine whose log is followed, of a job on several machines."""
        return MessageStream(
            self.http,
            _job_path(job_id, "stream"),
            include=include,
            cursor=cursor,
            node=node,
            patience_s=patience_s,
            on_break=on_break,
        )

    def project_stream(self, *, after: int = 0, patience_s: float = PATIENCE_S) -> MessageStream:
        return MessageStream(
            self.http, f"{ROOT}/stream", cursor=StreamCursor(after=after), patience_s=patience_s
        )

    def upload(
        self, sha256: str, archive: Path | bytes, on_bytes: Callable[[int], None] = lambda size: None
    ) -> bool:
        """Upload a file or archive if the server does not have it. Return whether it was uploaded.

        `on_bytes` is called with the size of each block that was sent.
        """
        path = f"{ROOT}/uploads/{sha256}"
        try:
            self.http.request("HEAD", path)
            return False
        except NotFound:
            self._put_archive(path, archive, on_bytes)
            return True

    def upload_limits(self) -> Json:
        """Return how many bytes and files a snapshot of a working directory may have."""
        return self._get(f"{ROOT}/snapshots/limits")

    def missing_uploads(self, hashes: Sequence[str]) -> list[str]:
        """Return those of the SHA-256 hashes whose contents the server does not have."""
        answer = self._post(f"{ROOT}/snapshots/missing", {"sha256": list(hashes)}, repeatable=True)
        return list(answer["missing"])

    def upload_batch(self, contents: Sequence[tuple[str, bytes]]) -> None:
        """Upload several small contents, each with its SHA-256, in one request."""
        body = b"".join(b"%s %d\n%s" % (sha256.encode(), len(data), data) for sha256, data in contents)
        kind = {"Content-Type": "application/octet-stream"}
        self.http.request("POST", f"{ROOT}/snapshots/contents", body=body, headers=kind, repeatable=True)

    def _put_archive(self, path: str, archive: Path | bytes, on_bytes: Callable[[int], None]) -> None:
        kind = {"Content-Type": "application/gzip"}
        if isinstance(archive, bytes):
            self.http.request("PUT", path, body=archive, headers=kind)
            on_bytes(len(archive))
            return
        with archive.open("rb") as file:
            size = {"Content-Length": str(archive.stat().st_size)}
            body = _CountedFile(file, on_bytes)
            self.http.request("PUT", path, body=body, headers={**kind, **size})

    def plan(self, spec: Mapping[str, Any], files: Mapping[str, str], *, limit: int = 8) -> Json:
        """Return the server's plan for a job without starting the job.

        `files` maps paths to the text of the code.
        """
        body = {"spec": dict(spec), "files": dict(files)}
        return self._post(f"{ROOT}/plan", body, query={"limit": limit}, repeatable=True)

    def native_requests(
        self,
        spec: Mapping[str, Any],
        files: Mapping[str, str] | None = None,
        *,
        backend: str = "",
        offer: str = "",
        region: str = "",
    ) -> Json:
        """Return the requests that a backend would send to start a job, without credentials. Nothing is started.

        `backend`, `offer` and `region` choose an offer of a plan; without them it is the best one.
        """
        body = {"spec": dict(spec), "files": dict(files or {}), "backend": backend, "offer": offer}
        return self._post(f"{ROOT}/plan/native", {**body, "region": region}, repeatable=True)

    def trainers(self) -> list[Json]:
        """Return the trainers with their settings as JSON schemas."""
        return list(self._get(f"{ROOT}/trainers")["trainers"])

    def render_spec(self, spec: Mapping[str, Any]) -> Json:
        """Return the spec as a shell command (`cli`), a YAML job file (`yaml`) and Python code (`python`)."""
        return self._post(f"{ROOT}/spec/render", {"spec": dict(spec)}, repeatable=True)

    def code_texts(self, job_id: str) -> Json:
        """Return the files of a job as they were uploaded, with the text of small text files."""
        return self._get(_job_path(job_id, "code/texts"))

    def kept_plan(self, job_id: str) -> Json:
        """Return the plan that was stored when the job started, its predictions, and its actual time and cost."""
        return self._get(_job_path(job_id, "plan"))

    def queue(self) -> Json:
        return self._get(f"{ROOT}/queue")

    def costs(
        self,
        by: str = "day",
        *,
        first: str | None = None,
        last: str | None = None,
        timezone: str = "UTC",
        daily: bool = False,
        limit: int | None = None,
    ) -> Json:
        """Return the costs of the project by `day`, `person`, `backend`, `gpu` or `tag`.

        `first` and `last` are dates such as `2026-11-01`; by default the days of this month until today. With `daily`,
        each group also has its cost on each day.
        """
        return self._get(f"{ROOT}/costs", _cost_query(by, first, last, timezone, daily, limit))

    def costs_csv(
        self,
        by: str = "day",
        *,
        first: str | None = None,
        last: str | None = None,
        timezone: str = "UTC",
        daily: bool = False,
    ) -> bytes:
        """Return the same as a CSV file."""
        query = {**_cost_query(by, first, last, timezone, daily, None), "format": "csv"}
        return self.http.request("GET", f"{ROOT}/costs", query=query).data

    def cost_summary(self, *, month: str | None = None, timezone: str = "UTC") -> Json:
        """Return the costs of a month (default: this month) and of today, with a projection for the whole month."""
        return self._get(f"{ROOT}/costs/summary", {"month": month, "timezone": timezone})

    def compare_costs(
        self,
        spec: Mapping[str, Any] | None = None,
        files: Mapping[str, str] | None = None,
        *,
        job: str | None = None,
    ) -> Json:
        """Return what a whole workload, or a job of the project, would cost at each provider."""
        body = {"job": job} if spec is None else {"spec": dict(spec), "files": dict(files or {})}
        return self._post(f"{ROOT}/costs/compare", body, repeatable=True)

    def accuracy(self) -> Json:
        """Return the server's predictions compared with the actual times and costs."""
        return self._get(f"{ROOT}/accuracy")

    def judged_jobs(self, *, limit: int = 50) -> Json:
        """Return completed jobs of the project with their predictions and results, newest first."""
        return self._get(f"{ROOT}/accuracy/jobs", {"limit": limit})

    def machines(self) -> Json:
        return self._get(f"{ROOT}/machines")

    def end_machine(self, name: str, *, force: bool = False) -> None:
        query = {"force": "true"} if force else None
        self.http.request("DELETE", f"{ROOT}/machines/{quote(name, safe='')}", query=query)

    def sweep(self) -> Json:
        return self._post(f"{ROOT}/sweep", repeatable=True)

    def migrate(self, job_id: str, to: str) -> Json:
        return self._post(_job_path(job_id, "migrate"), {"to": to}, repeatable=True)

    def release(self, job_id: str) -> Json:
        return self._post(_job_path(job_id, "release"), repeatable=True)

    def shell(self, job_id: str) -> Json:
        return self._get(_job_path(job_id, "shell"))

    def secrets(self) -> Json:
        return self._get(f"{ROOT}/secrets")

    def set_secret(self, name: str, value: str) -> None:
        self.http.request("PUT", f"{ROOT}/secrets/{quote(name, safe='')}", body={"value": value})

    def remove_secret(self, name: str) -> None:
        self.http.request("DELETE", f"{ROOT}/secrets/{quote(name, safe='')}")

    def tokens(self) -> Json:
        return self._get(f"{ROOT}/tokens")

    def create_token(self, **fields: Any) -> Json:
        return self._post(
            f"{ROOT}/tokens", {key: value for key, value in fields.items() if value is not None}
        )

    def revoke_token(self, token_id: str) -> None:
        self.http.request("DELETE", f"{ROOT}/tokens/{quote(token_id, safe='')}")

    def gc(
        self, *, dry_run: bool = False, force: bool = False, adopt: bool = False, empty_trash: bool = False
    ) -> Json:
        """Remove logs, metrics and files of jobs that ended long ago. The options are those of `anygpu gc`."""
        options = {"dry_run": dry_run, "force": force, "adopt": adopt, "empty_trash": empty_trash}
        return self._post(f"{ROOT}/gc", query={name: str(value).lower() for name, value in options.items()})

    def gpus(self) -> Json:
        return self._get(f"{ROOT}/monitoring/gpu")

    def whoami(self) -> Json:
        return self._get(f"{ROOT}/whoami")

    def login_link(self, *, expires_s: float | None = None) -> Json:
        """Return a link that logs in one browser, once. By default it works for a minute."""
        return self._post(f"{ROOT}/login/links", None if expires_s is None else {"expires_s": expires_s})

    def job_page(self, job_id: str) -> str:
        """Return the address of the job's page in the web app. It needs a browser that is logged in."""
        return f"{self.http.endpoint.url.rstrip('/')}{job_page_path(job_id)}"

    def close(self) -> None:
        self.http.close()

    def _get(self, path: str, query: Mapping[str, Any] | None = None) -> Json:
        answer: Json = self.http.request("GET", path, query=query).json()
        return answer

    def _patch(self, path: str, body: Any) -> Json:
        answer: Json = self.http.request("PATCH", path, body=body, repeatable=True).json()
        return answer

    def _post(self, path: str, body: Any = None, **more: Any) -> Json:
        answer: Json = self.http.request("POST", path, body=body, **more).json()
        return answer


def job_page_path(job_id: str) -> str:
    return f"/jobs/{quote(job_id, safe='')}"


class _CountedFile:
    """A file that reports how many bytes were read."""

    def __init__(self, file: IO[bytes], on_bytes: Callable[[int], None]) -> None:
        self._file, self._on_bytes = file, on_bytes

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._on_bytes(len(data))
        return data

    def seek(self, position: int) -> int:
        return self._file.seek(position)


def _cost_query(
    by: str, first: str | None, last: str | None, timezone: str, daily: bool, limit: int | None
) -> Json:
    days = {"from": first, "to": last, "timezone": timezone}
    return {"by": by, **days, "daily": "true" if daily else None, "limit": limit}


def new_key() -> str:
    return os.urandom(16).hex()


def _job_path(job_id: str, what: str = "") -> str:
    path = f"{ROOT}/training/{quote(job_id, safe='')}"
    return f"{path}/{what}" if what else path
