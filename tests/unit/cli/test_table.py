from anygpu.cli import paint, table


def test_columns_stand_under_their_headings() -> None:
    assert table.table(("ID", "NAME"), [("1", "digits"), ("22", "x")], columns=80) == [
        "ID  NAME",
        "1   digits",
        "22  x",
    ]


def test_the_last_column_gives_way_first() -> None:
    lines = table.table(("ID", "METRICS"), [("0123456789", "loss=0.1 accuracy=0.99")], columns=24)
    assert lines[1] == "0123456789  loss=0.1 ac…"
    assert max(len(line) for line in lines) == 24


def test_wide_columns_give_way_before_narrow_ones() -> None:
    heading = ("NAME", "LICENCE", "FOR")
    row = ("yolo", "Apache-2.0 (the larger ones: another)", "detection, segmentation")
    assert table.table(heading, [row], columns=50)[1] == "yolo  Apache-2.0 (the larger on…  detection, segm…"


def test_colours_take_no_room() -> None:
    painted = paint.paint("failed", "red", on=True)
    assert table.visible(painted) == 6
    assert table.table(("S", "N"), [(painted, "x")], columns=80)[1] == f"{painted}  x"


def test_a_cell_too_long_loses_its_colour_rather_than_half_an_escape() -> None:
    painted = paint.paint("a very long word indeed", "red", on=True)
    assert "\x1b" not in table.table(("S",), [(painted,)], columns=10)[1]


def test_fields_have_their_values_under_each_other() -> None:
    assert table.fields([("a", "1"), ("long", "2")]) == ["a     1", "long  2"]


def test_no_colour_wins_over_everything(monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert paint.wanted()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not paint.wanted()
