"""Analysis of a job before it runs: from its command, its code and its packed directory."""

import gzip
import io
import tarfile

from anygpu.plan.analyse.job import analyse_job, job_script, read_archive
from anygpu.spec.load import from_mapping


def packed(**files: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name.replace("__", "/").replace("_", "."))
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return made.getvalue()


def test_the_script_of_a_command_is_found_and_its_arguments_are_read() -> None:
    job = from_mapping({"command": "python src/train.py --epochs 7"})
    assert job_script(job) == "src/train.py"
    code = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--epochs', type=int, default=3)\n"
    read = analyse_job(job, {"src/train.py": code + "for e in range(p.parse_args().epochs):\n    pass\n"})
    assert read is not None
    assert read.epochs is not None
    assert read.epochs.value == 7
    assert analyse_job(from_mapping({"command": ["true"]}), {}) is None


def test_a_packed_directory_yields_its_code_and_configuration() -> None:
    archive = packed(a__train_py=b"print(1)", a__c_yaml=b"x: 1", a__big_bin=b"0" * 100_000, b_py=b"2")
    assert read_archive(archive) == {"a/train.py": b"print(1)", "a/c.yaml": b"x: 1", "b.py": b"2"}
    assert read_archive(archive, "a") == {"train.py": b"print(1)", "c.yaml": b"x: 1"}


def test_what_is_no_archive_or_a_bomb_yields_what_was_read_before() -> None:
    assert read_archive(b"junk") == {}
    assert read_archive(packed(train_py=b"x" * 50_000)[:60]) == {}
    header = tarfile.TarInfo("x.bin")
    header.size = 200_000_000
    bomb = gzip.compress(header.tobuf() + b"\0" * 200_000_000, compresslevel=1)
    assert read_archive(bomb) == {}
