"""Check that a submitted job can find its files: in an upload, or in a directory of the server's machine."""

from collections.abc import Iterator

from anygpu.errors import Problem
from anygpu.spec.fields import require_relative_path
from anygpu.spec.jobspec import JobSpec


def workdir_problems(spec: JobSpec, *, may_run_in_place: bool) -> Iterator[Problem]:
    """Yield the problems of the job's working directory and of the path of its script.

    `may_run_in_place`: the job may use directories of the server's machine.
    """
    workdir = spec.workdir
    if spec.in_place and not may_run_in_place:
        said = "is a directory of the server's machine, which only the server's own organisation may use"
        yield Problem("workdir.path", spec.in_place, said, "upload the files: set workdir.archive")
    elif workdir is not None and not (workdir.in_place or workdir.archive):
        hint = "give an absolute path of the server's machine, or upload the files: set workdir.archive"
        if workdir.path and not workdir.path.startswith("/"):
            yield Problem("workdir.path", workdir.path, "is not absolute, and no files were uploaded", hint)
        elif workdir.snapshot:
            yield Problem("workdir.snapshot", True, "needs an upload of the files", hint)
    if spec.script is not None and not spec.in_place and (fault := _path_fault(spec.script)):
        yield Problem("script", spec.script, fault)


def _path_fault(path: str) -> str:
    """Return why the path of a script is not inside the working directory; an empty string if it is."""
    try:
        require_relative_path(path)
    except ValueError as error:
        return str(error)
    return ""
