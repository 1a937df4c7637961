"""Lists in SkyPilot's columns, with their traps."""

import pytest

from anygpu.errors import InvalidSpec
from anygpu.plan.catalog.skypilot import ImportedPrices, is_skypilot_table, read_skypilot

COLUMNS = "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone"
COLUMNS += ",Price,SpotPrice"


def imported(*lines: str, cloud: str = "ec2") -> ImportedPrices:
    text = [f"{line}\n" for line in (COLUMNS, *lines)]
    return read_skypilot(text, "vms.csv", cloud=cloud, source="a list", recorded="2026-11-01")


def prices(found: ImportedPrices) -> dict[tuple[str, str, bool], int | None]:
    return {row.key[1:]: row.price_microusd for row in found.rows}


def test_of_the_zones_of_a_region_the_cheapest_counts() -> None:
    found = imported(
        "g5.xlarge,4.0,16.0,A10G,1.0,,us-east-1,us-east-1a,1.006,0.45",
        "g5.xlarge,4.0,16.0,A10G,1.0,,us-east-1,us-east-1b,1.006,0.41",
    )
    assert prices(found) == {
        ("g5.xlarge", "us-east-1", False): 1_006_000,
        ("g5.xlarge", "us-east-1", True): 410_000,
    }
    assert {(row.cloud, row.gpu, row.source) for row in found.rows} == {("ec2", "A10G", "a list")}


def test_lines_that_are_no_offer_are_left_out_and_counted() -> None:
    found = imported(
        "m5.large,2,8,,,,us-east-1,,0.096,",
        "g6f.large,2,8,L4,0.125,,us-east-1,,0.2,",
        "g5.xlarge,4,16,A10G,1,,us-east-1,,,",
        ",,,tpu-v3-8,1,tpu-v3-8,us-east-1,,8,2",
        "g4dn.xlarge,4,16,T4,1,,us-east-1,,0.526,nan",
    )
    assert prices(found) == {("g4dn.xlarge", "us-east-1", False): 526_000}
    assert found.skipped == {"no GPU": 1, "a part of a GPU": 1, "no price": 1, "a TPU": 1}


def test_a_gpu_of_google_is_added_to_the_machine_it_comes_with() -> None:
    found = imported(
        "a2-highgpu-1g,12.0,85.0,,,,us-central1,us-central1-a,0.73948,0.29576",
        "a4-highgpu-8g,224.0,3968.0,,,,us-central1,us-central1-b,0.0,0.0",
        "n1-standard-8,8.0,30.0,,,,us-central1,us-central1-a,0.38,0.1",
        ",,,A100,1,A100,us-central1,us-central1-a,2.93391,1.6939",
        ",,,B200,8,B200,us-central1,us-central1-b,90.216,39.6336",
        ",,,T4,1,T4,us-central1,us-central1-a,0.35,0.19",
        ",,,T4,4,T4,us-central1,us-central1-a,1.4,0.76",
        ",,,L4,1,L4,us-central1,us-central1-a,0.56004,0.3",
        cloud="gcp",
    )
    assert prices(found) == {
        ("a2-highgpu-1g", "us-central1", False): 3_673_390,
        ("a2-highgpu-1g", "us-central1", True): 1_989_660,
        ("a4-highgpu-8g", "us-central1", False): 90_216_000,
        ("a4-highgpu-8g", "us-central1", True): 39_633_600,
        ("n1-standard-8 + T4", "us-central1", False): 730_000,
        ("n1-standard-8 + T4", "us-central1", True): 290_000,
    }
    assert found.skipped == {"no GPU": 3, "a GPU without its host": 2}
    assert next((row.cpus, row.memory_gib) for row in found.rows if row.gpu == "B200") == (224, 3968)


@pytest.mark.parametrize(
    ("cloud", "spot"), [("runpod", "0.3"), ("vast", "0.00"), ("ec2", "0.74"), ("ec2", "0.9"), ("ec2", "0")]
)
def test_a_spot_price_counts_only_where_spot_is_rented_and_saves_something(cloud: str, spot: str) -> None:
    found = imported(f"x,5,29,RTX4090,1,,US,,0.74,{spot}", cloud=cloud)
    assert [row.spot for row in found.rows] == [False]


def test_a_mistake_is_told_with_its_line_and_nothing_is_taken() -> None:
    with pytest.raises(InvalidSpec, match=r"vms.csv:3 Price: 'dear' is not a number"):
        imported("a,1,1,T4,1,,us,,1,", "b,1,1,T4,1,,us,,dear,")
    with pytest.raises(InvalidSpec, match=r"vms.csv:2: has 3 cells, not 10"):
        imported("a,1,1")
    with pytest.raises(InvalidSpec, match=r"does not name the column 'AcceleratorCount', 'Price'"):
        read_skypilot(
            ["InstanceType,AcceleratorName,Region\n"], "it", cloud="ec2", source="a", recorded="2026-11-01"
        )


def test_the_columns_tell_whose_kind_of_list_it_is() -> None:
    assert is_skypilot_table(COLUMNS.split(","))
    assert not is_skypilot_table(["cloud", "price"])
