"""Ignore rules for packing the working directory.

The rules come from defaults, from .gitignore and .anygpuignore files, and from the spec. They work as in git.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

GITIGNORE, OWN_IGNORE = ".gitignore", ".anygpuignore"
DEFAULT_NAMES = frozenset(
    {".git", ".hg", ".svn", "__pycache__", ".venv", "venv", "node_modules", ".ipynb_checkpoints", ".DS_Store"}
    | {
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".tox",
        ".nox",
        ".hypothesis",
        ".idea",
        ".vscode",
        ".anygpu",
    }
)
DEFAULT_SUFFIXES = (".pyc", ".pyo", ".swp", ".egg-info")


@dataclass(frozen=True)
class IgnoreFile:
    """The rules of one ignore file. The rules apply to paths below `base`, which is "" or ends in /."""

    base: str
    lines: tuple[str, ...]

    @cached_property
    def spec(self) -> "GitIgnoreSpec":
        from pathspec import GitIgnoreSpec  # a slow import, only needed when there are rules

        return GitIgnoreSpec.from_lines(self.lines)

    def match(self, path: str) -> bool | None:
        """Return True to ignore the path, False to keep the path (a `!` rule), or None if no rule matches."""
        if not path.startswith(self.base):
            return None
        return self.spec.check_file(path[len(self.base) :]).include


@dataclass(frozen=True)
class IgnoreRules:
    """All ignore rules.

    Later rules win over earlier ones, in this order: defaults, .gitignore, .anygpuignore (both from outer to
    inner directories), the spec's own.
    """

    git: tuple[IgnoreFile, ...] = ()
    own: tuple[IgnoreFile, ...] = ()
    spec: tuple[IgnoreFile, ...] = ()

    def ignores(self, path: str, name: str) -> bool:
        """Return whether a path is ignored. `path` is relative to the root, and ends in / for a directory."""
        for rules in (self.spec, self.own, self.git):
            for rule in reversed(rules):
                decision = rule.match(path)
                if decision is not None:
                    return decision
        return name in DEFAULT_NAMES or name.endswith(DEFAULT_SUFFIXES)

    def entering(self, directory: Path, base: str, names: frozenset[str]) -> "IgnoreRules":
        """Return the rules that apply inside a directory, including those of its own ignore files.

        `names` are the names of the files in the directory.
        """
        rules = self
        if GITIGNORE in names:
            rules = replace(rules, git=(*rules.git, *read_ignore_file(directory / GITIGNORE, base)))
        if OWN_IGNORE in names:
            rules = replace(rules, own=(*rules.own, *read_ignore_file(directory / OWN_IGNORE, base)))
        return rules


def rules_for(root: Path, ignore: Sequence[str]) -> IgnoreRules:
    """Return the rules at the root: the defaults, those of the spec, and those of the surrounding git repository."""
    own = (IgnoreFile("", tuple(ignore)),) if ignore else ()
    return IgnoreRules(git=tuple(_outer_ignore_files(root)), spec=own)


def read_ignore_file(path: Path, base: str) -> Iterator[IgnoreFile]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    if any(line.strip() and not line.startswith("#") for line in lines):
        yield IgnoreFile(base, tuple(lines))


@dataclass(frozen=True)
class OuterIgnoreFile(IgnoreFile):
    """A .gitignore above the root. `prefix` is the path from its directory to the root."""

    prefix: str = ""

    def match(self, path: str) -> bool | None:
        return self.spec.check_file(self.prefix + path).include


def _outer_ignore_files(root: Path) -> Iterator[IgnoreFile]:
    """Yield the ignore files of all directories above the root, up to the root of the git repository."""
    if (root / ".git").exists():
        return
    parents = list(root.parents)
    depth = next((number for number, parent in enumerate(parents) if (parent / ".git").exists()), None)
    for parent in reversed(parents[: depth + 1] if depth is not None else []):
        prefix = root.relative_to(parent).as_posix() + "/"
        for rule in read_ignore_file(parent / GITIGNORE, ""):
            yield OuterIgnoreFile("", rule.lines, prefix)
