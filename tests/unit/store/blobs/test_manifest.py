"""Manifests come from agents: nothing in them is believed."""

import copy
import json
import math
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anygpu.errors import AnygpuError, InvalidSpec, TooLarge, UnsafePath
from anygpu.store.blobs import manifest as manifests
from anygpu.store.blobs.manifest import decode_manifest, parse_artifact_manifest, parse_checkpoint_manifest
from anygpu.testing.samples.manifests import artifact_of, digest, file_of, manifest_of

BAD_PATHS: list[object] = ["", "/etc/passwd", "../up", "a/../../b", "a/..", ".", "./a", "a//b", "a/", "nul\0"]
BAD_PATHS += ["tab\t", "a\\b", "\udcff", "x" * 1025, None, 7, ["a"]]
GOOD = manifest_of(file_of("ckpt/last.pt", b"one", b"two"), file_of("ckpt/sub/optimizer.pt", b"three"))


def changed(place: list[str | int], value: object) -> dict[str, object]:
    body = copy.deepcopy(GOOD)
    at: Any = body
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    return body


def test_a_good_manifest_survives_being_stored() -> None:
    manifest = parse_checkpoint_manifest(GOOD)
    assert decode_manifest(manifest.to_bytes()) == manifest
    artifact = parse_artifact_manifest(artifact_of("runs/best.pt", b"one", b"two"))
    assert decode_manifest(artifact.to_bytes()) == artifact


def test_every_field_is_in_what_is_stored_and_the_bytes_stay_as_they_are() -> None:
    manifest = parse_checkpoint_manifest(GOOD)
    fields = {name: value for name, value in asdict(manifest).items() if value not in ("", None)}
    whole = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    assert manifest.to_bytes() == whole  # an identity is made of these bytes
    labelled = parse_checkpoint_manifest({**GOOD, "unit": "epoch", "epoch": 5})
    assert decode_manifest(labelled.to_bytes()) == labelled
    assert (labelled.unit, labelled.epoch) == ("epoch", 5)


@pytest.mark.parametrize("unit", ["furlong", 7, None, ["step"], {}])
def test_a_unit_that_is_not_known_is_dropped(unit: object) -> None:
    assert parse_checkpoint_manifest({**GOOD, "unit": unit}).unit == ""


def test_what_is_not_known_is_dropped() -> None:
    assert parse_checkpoint_manifest({**GOOD, "kind": "artifact", "later": 1}) == parse_checkpoint_manifest(
        GOOD
    )


def test_the_order_of_keys_does_not_change_the_id() -> None:
    backwards = dict(reversed(GOOD.items()))
    assert parse_checkpoint_manifest(backwards).id_for(1) == parse_checkpoint_manifest(GOOD).id_for(1)


@pytest.mark.parametrize(
    "path",
    BAD_PATHS,
)
def test_a_path_that_could_lead_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(UnsafePath):
        parse_checkpoint_manifest(changed(["files", 0, "path"], path))
    with pytest.raises(UnsafePath):
        parse_artifact_manifest({**artifact_of("x", b"one"), "name": path})


def test_the_same_path_twice_is_refused() -> None:
    with pytest.raises(UnsafePath, match="twice"):
        parse_checkpoint_manifest(manifest_of(file_of("a", b"1"), file_of("a", b"1")))


def test_a_file_that_must_also_be_a_directory_is_refused() -> None:
    with pytest.raises(UnsafePath, match="which is also listed as a file"):
        parse_checkpoint_manifest(
            manifest_of(file_of("a/b/c", b"1"), file_of("a.b", b"1"), file_of("a", b"1"))
        )


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (["step"], -1),
        (["step"], 1.5),
        (["step"], True),
        (["step"], None),
        (["world_size"], 0),
        (["at"], math.nan),
        (["at"], math.inf),
        (["at"], "now"),
        (["files"], []),
        (["files"], "a"),
        (["files", 0], "a"),
        (["files", 0, "size"], 7),
        (["files", 0, "size"], -6),
        (["files", 0, "sha256"], "X" * 64),
        (["files", 0, "sha256"], digest(b"one").upper()),
        (["files", 0, "chunks"], None),
        (["files", 0, "chunks"], []),
        (["files", 0, "chunks", 0, "size"], 0),
        (["files", 0, "chunks", 0, "size"], 4),
        (["files", 0, "chunks", 0, "sha256"], "../../../../etc/passwd"),
        (["files", 1, "sha256"], digest(b"not three")),
        (["files", 1, "chunks", 0, "sha256"], digest(b"one")),
    ],
)
def test_a_wrong_value_is_refused_and_its_place_named(place: list[str | int], value: object) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_checkpoint_manifest(changed(place, value))
    assert str(place[0]) in str(refused.value)


def test_an_empty_file_has_the_sha256_of_nothing() -> None:
    with pytest.raises(InvalidSpec):
        parse_checkpoint_manifest(manifest_of({**file_of("empty"), "sha256": digest(b"one")}))


def test_one_sha256_with_two_sizes_is_refused() -> None:
    file = file_of("a", b"one", b"two")
    liar: dict[str, Any] = {
        "path": "b",
        "size": 9,
        "sha256": digest(b"b"),
        "chunks": [*file["chunks"], {"size": 3, "sha256": "0" * 64}],
    }
    liar["chunks"] = [{**liar["chunks"][0], "size": 4}, {**liar["chunks"][1], "size": 5}]
    with pytest.raises(InvalidSpec, match="different sizes"):
        parse_checkpoint_manifest(manifest_of(file, liar))


def test_more_than_the_limits_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TooLarge):
        parse_checkpoint_manifest(changed(["files", 0, "chunks", 0, "size"], manifests.MAX_CHUNK_BYTES + 1))
    with pytest.raises(TooLarge):
        parse_checkpoint_manifest(changed(["step"], 2**60))
    monkeypatch.setattr(manifests, "MAX_FILES", 1)
    with pytest.raises(TooLarge):
        parse_checkpoint_manifest(GOOD)
    monkeypatch.setattr(manifests, "MAX_FILES", 10)
    monkeypatch.setattr(manifests, "MAX_CHUNKS", 2)
    with pytest.raises(TooLarge):
        parse_checkpoint_manifest(GOOD)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
PLACES = [
    ["step"],
    ["files"],
    ["files", 0],
    ["files", 0, "path"],
    ["files", 0, "size"],
    ["files", 0, "chunks"],
]
PLACES += [["files", 0, "chunks", 0], ["files", 0, "chunks", 0, "sha256"], ["at"], ["world_size"]]


@given(place=st.sampled_from(PLACES), value=JSON)
def test_any_value_anywhere_is_refused_or_survives_being_stored(
    place: list[str | int], value: object
) -> None:
    try:
        manifest = parse_checkpoint_manifest(changed(place, value))
    except AnygpuError:
        return
    assert decode_manifest(manifest.to_bytes()) == manifest
