"""Tables in our own columns: taken whole, or refused with the lines that are wrong."""

from pathlib import Path

import pytest
from tests.unit.plan.catalog.builders import HEADING, lines, row

from anygpu.errors import InvalidSpec
from anygpu.plan.catalog.tables import read_lines, read_table, table_cells

GOOD = "gcp,big,NVIDIA A100-SXM4-80GB,8,96,1360,us-1;eu-1,spot,20.5,a list,2026-11-01"


def wrong(line: str) -> str:
    with pytest.raises(InvalidSpec) as caught:
        read_table(lines(GOOD, line), "prices.csv")
    return str(caught.value)


def test_a_line_is_an_offer_in_each_of_its_regions() -> None:
    found = read_table(lines(GOOD), "prices.csv")
    assert [each.region for each in found] == ["us-1", "eu-1"]
    assert {(each.gpu, each.gpu_count, each.spot, each.price_microusd) for each in found} == {
        ("A100-80GB", 8, True, 20_500_000)
    }


def test_what_is_written_is_read_again_and_regions_with_one_price_share_a_line() -> None:
    rows = [row(region="b"), row(region="a"), row("two", 123_456, spot=True), row("three", None)]
    text = [",".join(cells) + "\n" for cells in table_cells(rows)]
    assert len(text) == 4
    assert sorted(read_table(text, "it", edits=True)) == sorted(rows)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("gcp,big,T4,1,8,32,us,on-demand,cheap,l,2026-11-01", "prices.csv:3 price: 'cheap' is not a number"),
        (
            "gcp,big,T4,1,8,32,us,on-demand,-1,l,2026-11-01",
            "price: -1 is out of range; write a number from 0 to 10000",
        ),
        ("gcp,big,T4,1,8,32,us,on-demand,nan,l,2026-11-01", "price: nan is out of range"),
        ("gcp,big,T4,1,8,32,us,on-demand,0,l,2026-11-01", "price: must be more than 0"),
        ("gcp,big,T4,1,8,32,us,on-demand,,l,2026-11-01", "price: is empty"),
        (
            "gpc,big,T4,1,8,32,us,on-demand,1,l,2026-11-01",
            "cloud: 'gpc' is not a known cloud; known clouds: ec2,",
        ),
        ("gcp,,T4,1,8,32,us,on-demand,1,l,2026-11-01", "instance_type: is empty"),
        ("gcp,big,T4,0.5,8,32,us,on-demand,1,l,2026-11-01", "gpu_count: is not a whole number of GPUs"),
        ("gcp,big,,1,8,32,us,on-demand,1,l,2026-11-01", "gpu: and gpu_count belong together"),
        ("gcp,big,T4,1,8,32,us,preemptible,1,l,2026-11-01", "market: 'preemptible' is not a market"),
        ("gcp,big,T4,1,8,32,us,on-demand,1,,2026-11-01", "source: is empty"),
        ("gcp,big,T4,1,8,32,us,on-demand,1,l,01.11.2026", "recorded: '01.11.2026' is not a date"),
        ("gcp,big,T4,1,8,32,us,on-demand,1", "prices.csv:3: has 9 cells, not 11"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_nothing_is_taken(line: str, said: str) -> None:
    assert said in wrong(line)


def test_every_mistake_is_told_at_once_but_not_thousands() -> None:
    bad = ["gcp,big,T4,1,8,32,us,on-demand,x,l,2026-11-01"] * 500
    with pytest.raises(InvalidSpec) as caught:
        read_table(lines(*bad), "prices.csv")
    assert len(caught.value.problems) == 21
    assert "and 480 more" in str(caught.value)


def test_comments_do_not_shift_the_lines_that_are_named() -> None:
    text = ["# a comment\n", HEADING, "# another\n", "gcp,big,T4,1,8,32,us,on-demand,x,l,2026-11-01\n"]
    with pytest.raises(InvalidSpec, match=r"it:4 price"):
        read_table(text, "it")


@pytest.mark.parametrize("text", [[], ["a,b\n", "1,2\n"]])
def test_a_file_without_the_columns_says_which_are_missing(text: list[str]) -> None:
    with pytest.raises(InvalidSpec, match=r"it:1 columns: the first line does not name the column 'cloud'"):
        read_table(text, "it")


def test_what_is_no_text_is_refused_and_a_byte_order_mark_is_not(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_bytes(b"\xff\xfe\x00garbage")
    with pytest.raises(InvalidSpec, match="is not a text in UTF-8"):
        read_lines(path)
    path.write_text("".join(lines(GOOD)), encoding="utf-8-sig")
    assert len(read_table(read_lines(path), path.name)) == 2
