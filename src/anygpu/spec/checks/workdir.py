"""Check that a submitted job can find its files: in an upload, or in a directory of the server's machine."""

from collections.abc import Iterator

from anygpu.errors import Problem
from anygpu.spec.fields import path_fault
from anygpu.spec.jobspec import JobSpec


def workdir_problems(spec: JobSpec, *, may_run_in_place: bool) -> Iterator[Problem]:
    """Yield the problems of the job's working directory and of the path of its script.

    `may_run_in_place`: the job may use directories of the server's machine.
    """
    workdir = spec.workdir
    if spec.is_only_in_place and not may_run_in_place:
        said = "is a directory of the server's machine, which only the server's own organisation may use"
        yield Problem(
            "workdir.path",
            spec.in_place,
            said,
            "submit the job with `anygpu run --snapshot`, which uploads the files (in the API: set "
            "workdir.manifest)",
        )
    elif workdir is not None and not (workdir.in_place or workdir.has_copy):
        hint = (
            "give an absolute path on the server's machine, or upload the files with `anygpu run --snapshot` "
            "(in the API: set workdir.manifest)"
        )
        if workdir.path and not workdir.path.startswith("/"):
            yield Problem(
                "workdir.path",
                workdir.path,
                "is not an absolute path, and no files were uploaded with the job",
                hint,
            )
        elif workdir.snapshot:
            yield Problem("workdir.snapshot", True, "is set, but no files were uploaded with the job", hint)
    if spec.script is not None and not spec.is_only_in_place and spec.script_in_copy is None:
        message = (
            path_fault(spec.script)
            or "is not a file in the uploaded working directory; give its path relative to that directory"
        )
        yield Problem("script", spec.script, message)
