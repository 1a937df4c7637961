"""A machine makes one offer for each model of GPU."""

from typing import Any

from anygpu.backends.host_gpus import cards_of_kind, group_gpus, machine_of_offer


def card(uuid: str, kind: str, memory_gib: float = 24.0) -> dict[str, Any]:
    return {"uuid": uuid, "kind": kind, "memory_gib": memory_gib, "driver": "580.1"}


def test_a_machine_with_one_model_makes_one_offer_of_its_own_name() -> None:
    (group,) = group_gpus("lab", [card("a", "NVIDIA L4"), card("b", "NVIDIA L4", 23.0)])
    assert (group.offer_name, group.kind, group.uuids) == ("lab", "NVIDIA L4", ["a", "b"])
    assert (group.memory_gib, group.driver, group.gpu_noun) == (23.0, "580.1", "GPU")


def test_a_machine_with_several_models_makes_one_offer_for_each() -> None:
    cards = [card("a", "NVIDIA L4"), card("b", "NVIDIA GeForce RTX 4090"), card("c", "NVIDIA L4")]
    first, second = group_gpus("lab", cards)
    assert (first.offer_name, first.uuids) == ("lab", ["a", "c"])
    assert (second.offer_name, second.uuids) == ("lab/RTX-4090", ["b"])
    assert (first.gpu_noun, second.gpu_noun) == ("L4 GPU", "RTX 4090 GPU")
    assert machine_of_offer(second.offer_name) == machine_of_offer(first.offer_name) == "lab"


def test_a_machine_without_gpus_makes_one_offer() -> None:
    (group,) = group_gpus("lab", [])
    assert (group.offer_name, group.kind, group.memory_gib, group.driver) == ("lab", "", 0, "")


def test_an_empty_kind_stands_for_all_gpus() -> None:
    cards = [card("a", "NVIDIA L4"), card("b", "NVIDIA T4")]
    assert cards_of_kind(cards, "") == cards
    assert cards_of_kind(cards, "NVIDIA T4") == cards[1:]
