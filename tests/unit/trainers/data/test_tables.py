"""Tables: what kind of values a column holds, and what is wrong with the file."""

import importlib.util
import zipfile
from pathlib import Path

import pytest
from tests.unit.trainers.data.drawn import write

from anygpu.trainers import BadDataset, MissingExtra, data
from anygpu.trainers.data.tables import column_counts


def csv(tmp_path: Path, text: str | bytes, name: str = "t.csv") -> Path:
    return write(tmp_path / name, text)


def test_numbers_categories_and_missing_values_are_told_apart(tmp_path: Path) -> None:
    text = "size,colour,nothing,code,id\n1,red,,007,12345678901234567\n-2.5e3,?,NA,8,1\n,blue, ,9,2\n"
    found = data.load_table(csv(tmp_path, text), target="colour")
    assert found.columns == ("size", "colour", "nothing", "code", "id")
    assert found.kinds == ("number", "category", "missing", "category", "category")
    assert found.column("size") == (1.0, -2500.0, None)
    assert found.column("colour") == ("red", None, "blue")
    assert found.rows[0] == (1.0, "red", None, "007", "12345678901234567")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_columns_may_be_separated_in_other_ways(tmp_path: Path, delimiter: str) -> None:
    text = "\r\n".join(delimiter.join(row) for row in (("a", "b"), ("1", "x"), ("2", "y"))) + "\r\n"
    assert data.load_table(csv(tmp_path, text)).rows == ((1.0, "x"), (2.0, "y"))


def test_quotes_line_ends_within_them_and_a_byte_order_mark_are_understood(tmp_path: Path) -> None:
    text = b'\xef\xbb\xbfname,price\n"a, ""b""\nc",1\n\nd,2\n'
    found = data.load_table(csv(tmp_path, text))
    assert (found.columns, found.rows) == (("name", "price"), (('a, "b"\nc', 1.0), ("d", 2.0)))


@pytest.mark.parametrize("word", ["inf", "nan(1)", "1_000x", "true"])
def test_what_only_looks_like_a_number_makes_a_category(tmp_path: Path, word: str) -> None:
    assert data.load_table(csv(tmp_path, f"a\n1\n{word}\n")).kinds == ("category",)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "t.csv: the table is empty"),
        ("a,b\n", "t.csv: the table has columns but no rows"),
        ("a,b\n1,2\n3\n4,5,6\n", "t.csv:3: the line has 1 values, but the first line has 2 columns"),
        ("a,a\n1,2\n", "t.csv:1: two columns are called 'a'"),
        ("a,\n1,2\n", "t.csv:1: column 2 has no name"),
        ('a,b\n1,"2\n', "t.csv:2: is not valid CSV: unexpected end of data"),
        (b"a,b\n1,\xff\n", "t.csv:2: is not UTF-8"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_with_its_line(
    tmp_path: Path, text: str | bytes, what: str
) -> None:
    with pytest.raises(BadDataset) as caught:
        data.load_table(csv(tmp_path, text))
    assert str(caught.value).replace(f"{tmp_path}/", "").startswith(what)


def test_a_target_that_is_not_there_names_the_nearest_column(tmp_path: Path) -> None:
    with pytest.raises(BadDataset, match="there is no column 'prize'; did you mean 'price'"):
        data.load_table(csv(tmp_path, "size,price\n1,2\n"), target="prize")


def test_every_wrong_line_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadDataset) as caught:
        data.load_table(csv(tmp_path, "a,b\n1\n1,2\n1,2,3\n"))
    assert [each.line for each in caught.value.findings] == [2, 4]


def test_the_only_table_of_a_folder_or_an_archive_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    csv(folder, "a\n1\n")
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.write(folder / "t.csv", "inner/t.csv")
    assert data.load_table(folder).rows == data.load_table(tmp_path / "t.zip", cache_dir=tmp_path / "c").rows
    csv(folder, "a\n1\n", "u.csv")
    with pytest.raises(BadDataset, match=r"exactly one table; .* Tables found: t\.csv, u\.csv"):
        data.load_table(folder)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadDataset, match=r"give a \.csv, \.tsv or \.parquet file"):
        data.load_table(write(tmp_path / "t.xlsx", b"PK"))
    with pytest.raises(BadDataset, match="does not exist"):
        data.load_table(tmp_path / "gone.csv")


def test_parquet_is_read_or_the_extra_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", b"PAR1 but cut")
    expected = BadDataset if importlib.util.find_spec("pyarrow") else MissingExtra
    with pytest.raises(expected, match=r"is not a complete Parquet file|pip install 'anygpu\[tabular\]'"):
        data.load_table(path)


def test_the_hash_changes_with_a_value(tmp_path: Path) -> None:
    tables = [
        data.load_table(csv(tmp_path, f"a,b\n1,{value}\n", f"{place}.csv"))
        for place, value in enumerate("xxy")
    ]
    assert tables[0].sha256 == tables[1].sha256 != tables[2].sha256


def test_columns_are_counted(tmp_path: Path) -> None:
    number, text, empty = column_counts(data.load_table(csv(tmp_path, "a,b,c\n1,x,\n3,x,\n,y,\n2,,\n")))
    assert (number.kind, number.missing, number.different) == ("number", 1, 3)
    assert number.spread is not None
    assert (number.spread.least, number.spread.median, number.spread.most) == (1, 2, 3)
    assert text.frequent == {"x": 2, "y": 1}
    assert (empty.kind, empty.missing) == ("missing", 4)
