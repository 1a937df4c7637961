"""A dataset that is a path here is found by a job that runs where the path is not."""

import shutil

from tests.acceptance.cli.conftest import Shell


def test_data_sent_along_is_there_when_the_path_is_gone(anygpu: Shell) -> None:
    folder = anygpu.directory / "digits"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    anygpu.write(
        "t.py",
        "import anygpu, os",
        "print(os.environ['ANYGPU_DATASET'].endswith('/digits'), os.listdir(os.environ['ANYGPU_DATASET']))",
        "open('c', 'w').close()",
        "anygpu.checkpoint('c', step=1, wait=True)",
    )
    first = anygpu("run", "-n", "reading", "--on", "cheapest", "--dataset", "digits", "t.py")
    assert first.stdout.endswith(b"True ['a.txt']\n")
    shutil.rmtree(folder)
    assert anygpu("resume", "reading").stdout.endswith(b"True ['a.txt']\n")
