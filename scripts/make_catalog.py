"""Makes src/anygpu/plan/catalog/prices.csv: a small table of what GPUs cost, with a source and a day on every row.

    python scripts/make_catalog.py PRICES.csv

PRICES.csv has the columns cloud, instance_type, gpu, gpu_count, vcpus, memory_gib, region, price_usd_hour,
spot_price_usd_hour, recorded: public price lists as skypilot-org/skypilot-catalog collects them. What those lists
do not have is written here, with where it was read. A price that is in neither is left out.
"""

import csv
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from anygpu.events.offers import MICROUSD
from anygpu.plan.catalog.tables import PriceRow, table_cells
from anygpu.plan.hardware import gpus

TARGET = Path(__file__).resolve().parent.parent / "src" / "anygpu" / "plan" / "catalog" / "prices.csv"
SERVICES = {"aws": "ec2"}  # the list's name -> ours, where they differ
LISTS = ("aws", "azure", "lambda", "runpod", "vast", "paperspace")
HEAD = """\
# On-demand and spot prices of GPU machines, US$ an hour for the whole machine. Made by scripts/make_catalog.py.
# Regions that share a price share a line. Sources: docs/reference/catalog.md.
"""
# Azure's NC, NCv2, NCv3, NV and NVv3 series are retired, its promotions over.
RETIRED = re.compile(r"_Promo$|^Standard_(NC(6|12|24)r?(s?_v[23])?|NC24rs_v3|NV\d+(s_v3)?)$")
# What the lists call by a name that fits several GPUs, or count wrongly: by the providers' own machine pages.
KINDS = {
    "p4de.24xlarge": "A100-80GB",
    "Standard_NC40ads_H100_v5": "H100-NVL",
    "Standard_NC80adis_H100_v5": "H100-NVL",
    "Standard_NC24ads_A100_v4": "A100-80GB-PCIe",
    "Standard_NC48ads_A100_v4": "A100-80GB-PCIe",
    "Standard_NC96ads_A100_v4": "A100-80GB-PCIe",
    "gpu_1x_h100_pcie": "H100-PCIe",
}
COUNTS = {"Standard_ND96isr_H100_v5": 8}
RUNPOD_KINDS = {"A100-80GB": "A100-80GB-PCIe", "H100": "H100-PCIe"}
USUAL_COUNTS = (1, 2, 4, 8)

# Read again later, by others who say where: the day and the source of a price change only if it is still the same.
LAMBDA_AGAIN = {
    "gpu_1x_b200_sxm6": 6.99,
    "gpu_2x_b200_sxm6": 13.78,
    "gpu_4x_b200_sxm6": 27.16,
    "gpu_8x_b200_sxm6": 53.52,
    "gpu_1x_h100_sxm5": 4.29,
    "gpu_2x_h100_sxm5": 8.38,
    "gpu_4x_h100_sxm5": 16.36,
    "gpu_8x_h100_sxm5": 31.92,
    "gpu_1x_h100_pcie": 3.29,
    "gpu_8x_a100_80gb_sxm4": 22.32,
    "gpu_8x_a100": 15.92,
    "gpu_8x_v100": 6.32,
    "gpu_8x_v100_n": 6.32,
    "gpu_4x_a6000": 4.36,
    "gpu_1x_gh200": 2.29,
    "gpu_1x_a10": 1.29,
    "gpu_1x_rtx6000": 0.69,
}
US_EAST_AGAIN = {
    ("ec2", "p4d.24xlarge", "us-east-1"): 21.957642,
    ("ec2", "p4de.24xlarge", "us-east-1"): 27.44705,
    ("ec2", "p5.48xlarge", "us-east-1"): 55.04,
    ("azure", "Standard_NC24ads_A100_v4", "eastus"): 3.673,
    ("azure", "Standard_NC40ads_H100_v5", "eastus"): 6.98,
    ("azure", "Standard_ND96asr_v4", "eastus"): 27.197,
    ("azure", "Standard_ND96isr_H100_v5", "eastus"): 98.32,
}
LAMBDA_SOURCE, LAMBDA_DAY = "lambda.ai/instances", "2026-09-20"
US_EAST_SOURCE, US_EAST_DAY = "data-receipts 109-gpu-pricing", "2026-11-09"

# Google prices the GPU and its host apart. Hosts on demand, as in three versions of the collected list (they did not
# change): machine type, GPU, number of GPUs, CPUs, memory in GiB, and the host's price by region.
GCP_REGIONS = ("us-central1", "us-west1", "us-east4", "europe-west4", "asia-southeast1")
A2 = {"us-central1": 0.73948, "us-west1": 0.73948, "europe-west4": 0.81406, "asia-southeast1": 0.9122}
A2_ULTRA = {"us-central1": 1.09962, "us-east4": 1.23833, "europe-west4": 1.2105, "asia-southeast1": 1.35641}
A3 = dict(zip(GCP_REGIONS, (9.46006, 9.46006, 9.46006, 9.93306, 11.67088), strict=True))
A3_ULTRA = dict(zip(GCP_REGIONS, (12.266, 12.266, 12.266, 12.8793), strict=False))
A4 = dict.fromkeys(
    ("us-central1", "us-east4", "europe-west4", "asia-southeast1"), 0.0
)  # in the price of the GPU
G2 = dict(zip(GCP_REGIONS, (0.14679, 0.14679, 0.14631, 0.15429, 0.1811), strict=True))  # for 4 CPUs
N1 = dict(zip(GCP_REGIONS, (0.38, 0.38, 0.42797, 0.41834, 0.46877), strict=True))  # n1-standard-8
GCP = (
    *((f"a2-highgpu-{n}g", "A100", n, 12 * n, 85 * n, A2, n) for n in (1, 2, 4, 8)),
    *((f"a2-ultragpu-{n}g", "A100-80GB", n, 12 * n, 170 * n, A2_ULTRA, n) for n in (1, 2, 4, 8)),
    ("a3-highgpu-8g", "H100", 8, 208, 1872, A3, 1),  # smaller ones are spot or flex-start only
    ("a3-megagpu-8g", "H100-MEGA", 8, 208, 1872, A3, 1),
    ("a3-ultragpu-8g", "H200", 8, 224, 2952, A3_ULTRA, 1),
    ("a4-highgpu-8g", "B200", 8, 224, 3968, A4, 1),
    *((f"g2-standard-{c}", "L4", 1, c, 4 * c, G2, c / 4) for c in (4, 8, 16, 32)),
    *((f"g2-standard-{c}", "L4", c // 12, c, 4 * c, G2, c / 4) for c in (24, 48, 96)),
    *(("n1-standard-8", kind, 1, 8, 30, N1, 1) for kind in ("T4", "V100", "P100")),
)
GCP_DAY, GCP_SOURCE = "2026-08-21", "skypilot-catalog gcp (GPU + host)"

# modal.com/pricing: US$ a second for a GPU, and beside it for a physical core and a GiB of memory. Offered here with
# 4 cores and 32 GiB a GPU.
MODAL = {
    "T4": 0.000164,
    "L4": 0.000222,
    "A10": 0.000306,
    "L40S": 0.000542,
    "A100-40GB": 0.000583,
    "A100-80GB": 0.000694,
    "RTXPRO6000": 0.000842,
    "H100": 0.001097,
    "H200": 0.001261,
    "B200": 0.001736,
}
MODAL_CORE, MODAL_GIB, MODAL_CORES, MODAL_MEMORY = 0.0000131, 0.00000222, 4, 32
MODAL_DAY, MODAL_SOURCE = "2026-05-25", "modal.com/pricing"
MODAL_AGAIN, MODAL_DAY_AGAIN = ("A10", "L40S", "A100-80GB", "H100"), "2026-10-04"

# AWS Pricing API, service AmazonSageMaker, us-east-1, as a public cost model recorded it.
SAGEMAKER = {
    "ml.g5.xlarge": ("A10G", 1, 4, 16, 1.408),
    "ml.g5.2xlarge": ("A10G", 1, 8, 32, 1.515),
    "ml.g6e.xlarge": ("L40S", 1, 4, 32, 2.61),
    "ml.g6e.2xlarge": ("L40S", 1, 8, 64, 2.80),
    "ml.g6e.4xlarge": ("L40S", 1, 16, 128, 3.76),
    "ml.g6e.8xlarge": ("L40S", 1, 32, 256, 5.6607),
    "ml.g6e.12xlarge": ("L40S", 4, 48, 384, 13.12),
}
SAGEMAKER_DAY, SAGEMAKER_SOURCE = "2026-08-17", "AWS Pricing API, AmazonSageMaker"

Listed = dict[str, str]


def main(path: Path) -> None:
    with path.open(newline="", encoding="utf-8") as file:
        listed = list(csv.DictReader(file))
    rows = sorted([*from_lists(listed), *google(listed), *modal(), *sagemaker()])
    with TARGET.open("w", newline="", encoding="utf-8") as file:
        file.write(HEAD)
        csv.writer(file, lineterminator="\n").writerows(table_cells(rows))
    print(f"{len(rows)} offers of {len({row.cloud for row in rows})} clouds in {TARGET.name}")


def from_lists(listed: Iterable[Listed]) -> Iterator[PriceRow]:
    seen = set()
    for line in listed:
        for row in offered(line):
            if row.key not in seen:
                seen.add(row.key)
                yield again(row)


def again(row: PriceRow) -> PriceRow:
    """Of a later day, if somebody has read the same price since."""
    price = row.price_microusd
    if row.cloud == "lambda" and price == microusd(LAMBDA_AGAIN.get(row.instance_type, 0)):
        return row._replace(source=LAMBDA_SOURCE, recorded=LAMBDA_DAY)
    if not row.spot and price == microusd(US_EAST_AGAIN.get(row.key[:3], 0)):
        return row._replace(source=US_EAST_SOURCE, recorded=US_EAST_DAY)
    return row


def offered(line: Listed) -> Iterator[PriceRow]:
    name, cloud = line["instance_type"], line["cloud"]
    if cloud not in LISTS or not name or gone(name) or not gpus.is_known(kind(line)):
        return
    count = COUNTS.get(name, float(line["gpu_count"]))
    if count not in USUAL_COUNTS or not line["price_usd_hour"]:
        return
    spec = gpus.spec(kind(line))
    on_demand = microusd(float(line["price_usd_hour"]))
    prices = [(False, on_demand)]
    # RunPod's and Vast's columns of that name are no spot prices; elsewhere one that saves nothing is a missing one.
    if cloud in ("aws", "azure") and line["spot_price_usd_hour"]:
        spot = microusd(float(line["spot_price_usd_hour"]))
        prices += [(True, spot)] if spot < on_demand else []
    for spot_market, price in prices:
        yield PriceRow(
            SERVICES.get(cloud, cloud),
            name,
            spec.kind if spec else kind(line),
            int(count),
            float(line["vcpus"] or 0),
            float(line["memory_gib"] or 0),
            region(line),
            spot_market,
            price,
            f"skypilot-catalog {cloud}",
            line["recorded"],
        )


def gone(name: str) -> bool:
    return bool(RETIRED.search(name)) or name.endswith(".metal")


def kind(line: Listed) -> str:
    named = line["gpu"]
    if line["cloud"] == "runpod":
        named = RUNPOD_KINDS.get(named, named)
    return KINDS.get(line["instance_type"], named)


def region(line: Listed) -> str:
    """Vast says `South Korea, KR, AS`: the country is enough. Paperspace says `East Coast (NY2)`, its API `ny2`."""
    if line["cloud"] == "vast":
        return line["region"].split(",")[-2].strip()
    return "ny2" if line["cloud"] == "paperspace" else line["region"]


def google(listed: Iterable[Listed]) -> Iterator[PriceRow]:
    alone = {
        (line["gpu"], float(line["gpu_count"]), line["region"]): float(line["price_usd_hour"])
        for line in listed
        if line["cloud"] == "gcp" and line["price_usd_hour"]
    }
    for name, gpu, count, cpus, memory, hosts, times in GCP:
        for where, host in hosts.items():
            if price := alone.get((gpu, count, where)):
                spec = gpus.spec(gpu)
                named = f"{name} + {gpu}" if name.startswith("n1") else name
                shape = ("gcp", named, spec.kind if spec else gpu, count, cpus, memory, where, False)
                yield PriceRow(*shape, microusd(price + host * times), GCP_SOURCE, GCP_DAY)


def modal() -> Iterator[PriceRow]:
    for gpu, a_second in MODAL.items():
        spec = gpus.spec(gpu)
        for count in USUAL_COUNTS[:3] if gpu == "A10" else USUAL_COUNTS:
            beside = MODAL_CORES * MODAL_CORE + MODAL_MEMORY * MODAL_GIB
            price = microusd(3600 * count * (a_second + beside))
            size = 2 * MODAL_CORES * count, MODAL_MEMORY * count
            shape = ("modal", f"{gpu}:{count}", spec.kind if spec else gpu, count, *size, "", False)
            yield PriceRow(*shape, price, MODAL_SOURCE, MODAL_DAY_AGAIN if gpu in MODAL_AGAIN else MODAL_DAY)


def sagemaker() -> Iterator[PriceRow]:
    for name, (gpu, count, cpus, memory, price) in SAGEMAKER.items():
        shape = ("sagemaker", name, gpu, count, cpus, memory, "us-east-1", False)
        yield PriceRow(*shape, microusd(price), SAGEMAKER_SOURCE, SAGEMAKER_DAY)


def microusd(dollars: float) -> int:
    return round(dollars * MICROUSD)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
