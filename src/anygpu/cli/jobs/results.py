"""After a followed job has ended: download the results of a copy into the user's directory."""

from pathlib import Path

from anygpu.cli.exits import print_message
from anygpu.cli.terminal import formatting
from anygpu.cli.terminal.output import emit_json_line
from anygpu.cli.terminal.transfer import TransferLine
from anygpu.errors import AnygpuError
from anygpu.sdk.client import Client
from anygpu.sdk.home import HomeDirectory, HomeFile, ran_in_copy


def bring_results_home(client: Client, job_id: str, directory: Path, since_ns: int, *, as_json: bool) -> None:
    """Download the results of an ended job to `directory`, if the job ran in a copy of that directory.

    Problems are printed and do not change the exit code, because the results stay on the server.
    """
    try:
        if ran_in_copy(client.job(job_id)):
            _Download(client, job_id, directory, since_ns, as_json).run()
    except (AnygpuError, OSError) as error:
        print_message(
            f"The job's results could not be downloaded: {error} {_continue_hint(job_id, directory)}"
        )
    except KeyboardInterrupt:
        print_message(f"Stopped downloading the job's results. {_continue_hint(job_id, directory)}")


def _continue_hint(job_id: str, directory: Path) -> str:
    return f"They stay on the server; continue with `anygpu fetch {job_id} --to {directory}`."


class _Download:
    def __init__(self, client: Client, job_id: str, directory: Path, since_ns: int, as_json: bool) -> None:
        self._client, self._job_id, self._as_json = client, job_id, as_json
        self._home = HomeDirectory(directory, job_id, since_ns)

    def run(self) -> None:
        files, blocked = self._home.results(self._client, self._job_id)
        fetched, problems = [], []
        with TransferLine("Fetching", sum(file.size for file in files)) as line:
            for file in files:
                try:
                    done = self._home.fetch(file, self._client.http.endpoint.url, line.add)
                except (AnygpuError, OSError) as error:
                    problems.append(f"The file {file.name} was not downloaded: {error}")
                else:
                    fetched.append(done)
                    self._print_json(done)
        for text in [*self._summary(fetched), *problems, *self._blocked_lines(blocked)]:
            print_message(text)

    def _print_json(self, file: HomeFile) -> None:
        if self._as_json:
            kept = None if file.kept is None else str(file.kept)
            emit_json_line({"kind": "fetched", "path": str(file.path), "size": file.size, "kept": kept})

    def _summary(self, fetched: list[HomeFile]) -> list[str]:
        new = [file for file in fetched if file.downloaded]
        if not new:
            return []
        size = formatting.size(sum(file.size for file in new))
        lines = [f"Fetched {formatting.plural(len(new), 'file')} ({size}) to {self._home.root}."]
        return lines + [
            f"{file.kept} already existed and was not replaced; the job's file was saved as {file.path.name}."
            for file in new
            if file.kept
        ]

    def _blocked_lines(self, names: list[str]) -> list[str]:
        if not names:
            return []
        return [
            f"Not downloaded: {formatting.plural(len(names), 'file')} that may configure other programs, such "
            f"as {names[0]}. Download them with `anygpu fetch {self._job_id} --all`."
        ]
