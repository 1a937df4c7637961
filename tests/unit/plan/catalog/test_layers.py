"""Tables one over the other: updates, imports and the organisation's own edits."""

from pathlib import Path

import pytest
from tests.unit.plan.catalog.builders import TODAY, lines, row

from anygpu.errors import InvalidSpec
from anygpu.plan.catalog import CatalogLayers, PriceRow, load_catalog


@pytest.fixture
def layers(tmp_path: Path) -> CatalogLayers:
    return CatalogLayers(folder=tmp_path / "state" / "catalog", edits=tmp_path / "catalog.csv")


def of(layers: CatalogLayers, cloud: str) -> dict[str, int | None]:
    return {each.instance_type: each.price_microusd for each in layers.rows() if each.cloud == cloud}


def edit(layers: CatalogLayers, *texts: str) -> None:
    layers.edits.write_text("".join(lines(*texts)))


def test_without_anything_of_ones_own_the_package_speaks(layers: CatalogLayers) -> None:
    found = load_catalog(layers, today=TODAY)
    assert len(found) == len(layers.rows()) > 3000
    assert not layers.folder.exists()


def test_an_update_takes_the_place_of_the_clouds_it_names_and_of_no_other(layers: CatalogLayers) -> None:
    before = of(layers, "runpod")
    layers.save_update([row("new", cloud="lambda")])
    assert of(layers, "lambda") == {"new": 1_000_000}
    assert of(layers, "runpod") == before


def test_imports_and_edits_survive_updates(layers: CatalogLayers) -> None:
    layers.save_import("lambda", [row("imported", 7, cloud="lambda"), row("both", 7, cloud="lambda")])
    edit(layers, "lambda,both,T4,1,8,32,us-1,on-demand,2.5,our contract,2026-10-01")
    layers.save_update([row(name, cloud="lambda") for name in ("imported", "both", "new")])
    assert of(layers, "lambda") == {"imported": 7, "both": 2_500_000, "new": 1_000_000}


def test_a_second_import_takes_the_place_of_the_first(layers: CatalogLayers) -> None:
    layers.save_import("canopywave", [row("old", cloud="canopywave")])
    layers.save_import("canopywave", [row("new", cloud="canopywave")])
    assert of(layers, "canopywave") == {"new": 1_000_000}
    assert [path.name for path in layers.folder.iterdir()] == ["import-canopywave.csv"]


def test_an_edit_without_a_price_takes_the_offer_out_and_without_a_region_everywhere(
    layers: CatalogLayers,
) -> None:
    layers.save_update([row("a", cloud="lambda", region=region) for region in ("us-1", "us-2")])
    edit(layers, "lambda,a,A100-40GB,1,8,64,us-1,on-demand,,not for us,2026-11-01")
    assert [each.region for each in layers.rows() if each.cloud == "lambda"] == ["us-2"]
    edit(layers, "lambda,a,A100-40GB,1,8,64,,on-demand,3,our contract,2026-11-01")
    assert _prices(layers.rows()) == {"us-1": 3_000_000, "us-2": 3_000_000}


def _prices(rows: list[PriceRow]) -> dict[str, int | None]:
    return {each.region: each.price_microusd for each in rows if each.cloud == "lambda"}


def test_an_edit_of_ec2_holds_for_the_services_on_its_machines(layers: CatalogLayers) -> None:
    edit(layers, "ec2,ours,T4,1,8,32,us-1,on-demand,0.1,our contract,2026-11-01")
    assert of(layers, "ecs")["ours"] == 100_000


def test_a_mistake_in_the_edits_names_the_file_and_the_line(layers: CatalogLayers) -> None:
    edit(layers, "lambda,a,T4,1,8,32,us-1,on-demand,cheap,us,2026-11-01")
    with pytest.raises(InvalidSpec, match=r"catalog.csv:2 price: 'cheap' is not a number"):
        layers.rows()
