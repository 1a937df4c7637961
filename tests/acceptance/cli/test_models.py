"""The trained model comes home under a name of its own."""

from tests.acceptance.cli.conftest import Shell

SAVING = [
    "import anygpu, os",
    "os.makedirs('runs/weights')",
    "open('runs/weights/best.pt', 'wb').write(b'found by its name')",
    "for said in (b'worse', b'best so far'):",
    "    open('w.pt', 'wb').write(said)",
    "    if os.environ.get('DECLARE'): anygpu.best('w.pt')",
]


def test_the_declared_model_is_downloaded_and_no_other_file_overwritten(anygpu: Shell) -> None:
    anygpu.write("t.py", *SAVING)
    anygpu("run", "-n", "declaring", "--env", "DECLARE=1", "--output", "runs/**", "t.py")
    [first] = anygpu.json("fetch", "declaring", "--model", "--to", "models")["files"]
    path = anygpu.directory / first["path"]
    assert path.read_bytes() == b"best so far"
    assert path.name.startswith("model_pytorch_20")
    assert path.suffix == ".pt"
    assert anygpu.json("fetch", "declaring", "-m", "--to", "models")["files"][0]["downloaded"] is False
    path.write_bytes(b"mine now")
    [second] = anygpu.json("fetch", "declaring", "-m", "--to", "models")["files"]
    assert (anygpu.directory / second["path"]).name == f"{path.stem}-2.pt"
    assert path.read_bytes() == b"mine now"


def test_without_a_declaration_the_patterns_find_the_model(anygpu: Shell) -> None:
    anygpu.write("t.py", *SAVING)
    anygpu("run", "-n", "silent", "--output", "runs/**", "--output", "w.pt", "t.py")
    [found] = anygpu.json("fetch", "silent", "--model")["files"]
    assert (anygpu.directory / found["path"]).read_bytes() == b"found by its name"
    assert found["path"].startswith("model_yolo_")


def test_a_job_without_a_model_says_how_to_declare_one(anygpu: Shell) -> None:
    anygpu.write("t.py", "print('nothing')")
    anygpu("run", "-n", "empty", "t.py")
    assert b"anygpu.best" in anygpu("fetch", "empty", "--model", code=66).stderr
