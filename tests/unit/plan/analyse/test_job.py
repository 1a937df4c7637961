"""Analysis of a job before it runs: from its command, its code and its packed directory."""

import gzip
import io
import tarfile

import pytest

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


def raw_header(name: bytes, kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo(name.decode())
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def test_chained_headers_do_not_exceed_the_recursion_limit() -> None:
    chain = (raw_header(b"././@LongLink", tarfile.GNUTYPE_LONGNAME, 5) + b"a.py\0".ljust(512, b"\0")) * 5000
    assert read_archive(gzip.compress(chain + bytes(1024))) == {}


def test_sparse_files_are_not_unpacked() -> None:
    info = tarfile.TarInfo("a.py")
    info.size = 0
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.size": str(2_000_000),
        "GNU.sparse.numblocks": "1",
        "GNU.sparse.map": "0,0",
    }
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info)
        plain = tarfile.TarInfo("b.py")
        plain.size = 1
        tar.addfile(plain, io.BytesIO(b"1"))
    assert read_archive(archive.getvalue()) == {"b.py": b"1"}


def test_the_size_of_all_files_together_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anygpu.plan.analyse.job.MAX_UNPACKED_BYTES", 40_000)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for number in range(10):
            info = tarfile.TarInfo(f"{number}.py")
            info.size = 9_000
            tar.addfile(info, io.BytesIO(bytes(9_000)))
    assert len(read_archive(archive.getvalue())) <= 4


def test_a_bomb_of_zeros_stops_at_the_limit() -> None:
    bomb = gzip.compress(raw_header(b"x.bin", b"0", 2**33 - 1) + bytes(80 * 2**20))
    assert read_archive(bomb) == {}


def test_checkpoint_settings_of_the_job_override_what_the_code_shows() -> None:
    code = "import torch\nmodel = torch.nn.Linear(2, 2).cuda()\nfor epoch in range(9):\n    model(x).sum().backward()\n"
    plain = analyse_job(from_mapping({"script": "t.py"}), {"t.py": code})
    assert plain is not None
    assert plain.checkpointing is not None
    assert not plain.checkpointing.value
    stated = {"paths": ["ckpt/*.pt"], "resume_args": ["--resume", "{path}"]}
    read = analyse_job(from_mapping({"script": "t.py", "checkpoint": stated}), {"t.py": code})
    assert read is not None
    assert read.checkpointing is not None
    assert read.resuming is not None
    assert read.characteristics is not None
    assert (read.checkpointing.value, read.resuming.value) == (True, True)
    assert read.checkpointing.location == "job spec"
    assert read.characteristics.interruptible.value
    assert not {"no-checkpoint", "no-resume"} & {lint.code for lint in read.lints}
    only_paths = analyse_job(from_mapping({"script": "t.py", "checkpoint": {"paths": ["a"]}}), {"t.py": code})
    assert only_paths is not None
    assert only_paths.characteristics is not None
    assert not only_paths.characteristics.interruptible.value
