"""A spec rendered as a command, as YAML and as Python gives the same spec when the text is parsed again."""

import ast
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anygpu.cli.jobs.job_file import build_job_request
from anygpu.cli.jobs.run import IS_COMMAND, run_command
from anygpu.spec import from_mapping, from_yaml
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_document
from anygpu.spec.render import render_spec

HOSTILE = [
    "; rm -rf ~",
    "$(touch x)",
    "`id`",
    "'",
    '"',
    "\\",
    "a\nb",
    "\x1b[201~rm",
    "\u202eevil",
    "--paid",
    "-",
    "",
    " ",
    "*",
    "é",
    "0o17",
    "null",
    "true",
    "1e5",
    "{a: 1}",
    "[x",
    "#",
    "a: b",
    "@file",
    '"""',
    "\U0001f600",
]
text = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
)
line = text.filter(lambda value: value.strip() and all(ch >= " " and ch != "\x7f" for ch in value))
word = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._/:+-]{0,8}", fullmatch=True)
variable = st.from_regex(r"[A-Z_][A-Z0-9_]{0,6}", fullmatch=True).filter(
    lambda each: not each.startswith("ANYGPU_")
)
path = line.filter(lambda each: ".." not in each and each[0] not in "/\\" and each[1:2] != ":")
json_value = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**60), 2**60), st.floats(-1e9, 1e9, allow_nan=False), text
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(text, inner, max_size=3)),
    max_leaves=6,
)
sha256 = st.just("0123456789abcdef" * 4)


def section(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


script = path.filter(lambda each: not each.startswith("-"))
targets = st.one_of(
    st.fixed_dictionaries(
        {"script": st.one_of(script, script.map(lambda each: f"{each}.py"))},
        optional={"args": st.lists(text, max_size=4)},
    ),
    st.fixed_dictionaries(
        {
            "script": st.just("train.py"),
            "args": st.lists(st.sampled_from(["--", "--on", "--max-cost=3", "x", "--epochs"]), max_size=4),
        }
    ),
    st.fixed_dictionaries({"command": text.filter(str.strip)}),
    st.fixed_dictionaries({"command": st.lists(text, min_size=1, max_size=4)}),
    st.fixed_dictionaries({"code": text.filter(bool)}),
    st.fixed_dictionaries(
        {
            "trainer": st.sampled_from(["tabular", "yolo/yolo11n", "./mine.py:Mine"]),
            "config": st.dictionaries(text, json_value, max_size=4),
        }
    ),
)
others = section(
    name=st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,6}[A-Za-z0-9])?", fullmatch=True).filter(
        lambda each: each != "last"
    ),
    tags=st.lists(line.filter(lambda each: len(each) < 90), max_size=3),
    env=st.dictionaries(variable, text, max_size=3),
    secrets=st.dictionaries(
        variable, st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,6}", fullmatch=True), max_size=3
    ),
    workdir=section(
        path=line,
        snapshot=st.booleans(),
        ignore=st.lists(line, max_size=2),
        subdir=st.just("a/b"),
        manifest=sha256,
    ),
    setup=st.lists(text.filter(bool), max_size=2),
    python=line,
    dataset=st.one_of(
        st.fixed_dictionaries({"path": line}),
        st.fixed_dictionaries({"path": line, "parts": st.lists(sha256, max_size=2)}),
        st.just({"url": "https://example.org/a b"}).filter(lambda _: False)
        | st.just({"url": "https://example.org/a?b='c'&d"}),
        st.fixed_dictionaries(
            {"name": st.just("imagenet")}, optional={"version": st.sampled_from(["3", "v1"])}
        ),
    ),
    outputs=st.lists(path, max_size=2),
    checkpoint=section(
        every_s=st.floats(0.5, 1e6),
        paths=st.lists(path, max_size=2),
        resume_args=st.lists(text, max_size=2),
        keep=st.integers(1, 50),
    ),
    resources=section(
        gpu=section(
            count=st.integers(0, 64),
            kind=st.sampled_from(["A100", "RTX 4090", "24", "L4"]),
            memory_gib=st.sampled_from([16.0, 22.5, 0.001]),
        ),
        cpus=st.one_of(st.integers(1, 64), st.floats(0.5, 64)),
        memory_gib=st.floats(0.5, 4096),
        disk_gib=st.floats(0.5, 4096),
    ),
    limits=st.one_of(
        section(
            timeout_s=st.floats(1, 1e6),
            max_cost_microusd=st.integers(0, 10**12),
            deadline_s=st.floats(1, 1e7),
            max_retries=st.integers(0, 20),
        ),
        st.just({"deadline_at": "2030-01-31T18:00:00.5+01:00"}),
    ),
    placement=section(
        strategy=st.sampled_from(["queue", "cheapest", "fastest", "preferred", "balanced"]),
        allowed=st.lists(word, max_size=3),
        profile=word,
        region=word,
        zone=word,
        instance_type=word,
        paid=st.booleans(),
        interruptible=st.sampled_from(["yes", "no", "auto"]),
        dedicated=st.booleans(),
        hold_on_failure_s=st.floats(1, 1e5),
        expected_duration_s=st.floats(1, 1e6),
        move=st.sampled_from(["never", "advise", "act"]),
    ),
    track=section(
        mlflow=st.one_of(st.booleans(), line), tensorboard=st.booleans(), tags=st.lists(word, max_size=2)
    ),
    notify=st.lists(
        st.fixed_dictionaries({"to": st.just("slack:#ops")}, optional={"on": st.just(["failed"])}), max_size=2
    ),
    priority=st.integers(-1000, 1000),
    requirements=st.one_of(
        st.lists(line.filter(lambda each: each != "auto"), max_size=3),
        st.sampled_from(["requirements.txt", "deps", "a b.in"]),
    ),
    resume_from=st.sampled_from(["last", "0198f3c2@400"]),
    idempotency_key=line,
)


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    mapping = {**draw(others), **draw(targets)}
    placement = mapping.get("placement", {})
    if placement.get("allowed") and draw(st.booleans()):
        placement["fallbacks"] = placement["allowed"]
        placement["strategy"] = "preferred"
    return from_mapping(mapping)


def dumped(spec: JobSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json")


def parse_command(command: str) -> JobSpec:
    """Parse a shell command with the parser of `anygpu run`."""
    words = shlex.split(command)
    assert words[:2] == ["anygpu", "run"]
    context = run_command.make_context("run", words[2:])
    flags = {key: value for key, value in context.params.items() if key not in ("as_json", "context_name")}
    target = flags.pop("target")
    request = build_job_request(target, flags, is_command=bool(context.meta.get(IS_COMMAND)))
    return from_document(request.document)


class RecordingPlatform:
    """Takes the arguments that the rendered code passes to `Platform.submit`."""

    given: dict[str, Any]

    def submit(self, **arguments: Any) -> Any:
        type(self).given = arguments
        return self

    id = "job"


def run_python(code: str) -> JobSpec:
    """Run the code with a platform that submits nothing, and return the spec that it would submit."""
    body = ast.parse(code).body
    assert ast.unparse(body[0]) == "from anygpu import Platform"
    names: dict[str, Any] = {"Platform": RecordingPlatform, "print": lambda _: None}
    exec(compile(ast.Module(body[1:], []), "rendered.py", "exec"), names)
    given = dict(RecordingPlatform.given)
    if "packages" in given:
        given["requirements"] = given.pop("packages")
    return from_mapping(given)


@pytest.fixture(autouse=True)
def empty_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("cwd"))


@settings(deadline=None, max_examples=150)
@given(specs())
def test_the_texts_give_the_same_spec(spec: JobSpec) -> None:
    texts = render_spec(spec)
    assert dumped(from_yaml(texts.yaml)) == dumped(spec)
    assert dumped(run_python(texts.python)) == dumped(spec)
    assert dumped(parse_command(texts.cli)) == dumped(spec)


@settings(deadline=None, max_examples=150)
@given(specs())
def test_the_texts_have_no_characters_that_a_terminal_interprets(spec: JobSpec) -> None:
    texts = render_spec(spec)
    assert texts.cli.isprintable()
    for several_lines in (texts.yaml, texts.python):
        assert all(character.isprintable() or character == "\n" for character in several_lines)


def test_an_ordinary_job_reads_as_a_person_would_write_it() -> None:
    spec = from_mapping(
        {
            "script": "train.py",
            "args": ["--epochs", "30"],
            "name": "resnet50",
            "tags": ["vision"],
            "resources": {"gpu": "A10G"},
            "limits": {"max_cost": 12, "deadline": "14h"},
            "placement": {"strategy": "cheapest", "paid": True},
            "workdir": {"snapshot": True},
        }
    )
    texts = render_spec(spec)
    assert texts.cli == (
        "anygpu run --name resnet50 --tag vision --snapshot --gpu A10G --max-cost 12 --deadline 14h"
        " --on cheapest --paid train.py --epochs 30"
    )
    assert "max_cost: 12\n" in texts.yaml
    assert "deadline: 14h\n" in texts.yaml
    assert "script='train.py'" in texts.python


def test_code_of_several_lines_is_a_block_in_yaml_and_python() -> None:
    texts = render_spec(from_mapping({"code": "import anygpu\n\nprint('hello')\n"}))
    assert texts.yaml == "code: |\n  import anygpu\n\n  print('hello')\n"
    assert 'code="""import anygpu\n\nprint(\'hello\')\n""",' in texts.python


def test_a_job_without_a_name_stays_without_a_name(tmp_path: Path) -> None:
    texts = render_spec(from_mapping({"script": "train.py"}))
    assert parse_command(texts.cli).name is None
    file = tmp_path / "job.yaml"
    file.write_text(texts.yaml)
    assert parse_command(shlex.join(["anygpu", "run", str(file)])).name is None
    assert parse_command("anygpu run train.py").name == "train"


def test_uploaded_files_need_no_directory_on_this_computer(tmp_path: Path) -> None:
    spec = from_mapping(
        {"script": "train.py", "name": "x", "workdir": {"manifest": "ab" * 32, "snapshot": True}}
    )
    file = tmp_path / "job.yaml"
    file.write_text(render_spec(spec).yaml)
    assert dumped(parse_command(shlex.join(["anygpu", "run", str(file)]))) == dumped(spec)
    assert os.listdir(".") == []  # noqa: PTH208
