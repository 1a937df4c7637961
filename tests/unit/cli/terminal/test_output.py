import pytest
import yaml

from anygpu.cli.terminal import output


def test_columns_are_aligned_with_their_headings() -> None:
    assert output.table(("ID", "NAME"), [("1", "digits"), ("22", "x")], columns=80) == [
        "ID  NAME",
        "1   digits",
        "22  x",
    ]


def test_the_last_column_is_cut_first() -> None:
    lines = output.table(("ID", "METRICS"), [("0123456789", "loss=0.1 accuracy=0.99")], columns=24)
    assert lines[1] == "0123456789  loss=0.1 ac…"
    assert max(len(line) for line in lines) == 24


def test_wide_columns_are_cut_before_narrow_ones() -> None:
    heading = ("NAME", "LICENCE", "FOR")
    row = ("yolo", "Apache-2.0 (the larger ones: another)", "detection, segmentation")
    assert output.table(heading, [row], columns=50)[1] == "yolo  Apache-2.0 (the larger on…  detection, segm…"


def test_colours_do_not_change_the_width() -> None:
    painted = output.paint("failed", "red", on=True)
    assert output.visible_length(painted) == 6
    assert output.table(("S", "N"), [(painted, "x")], columns=80)[1] == f"{painted}  x"


def test_a_cut_cell_loses_its_colour() -> None:
    painted = output.paint("a very long word indeed", "red", on=True)
    assert "\x1b" not in output.table(("N", "S"), [("1", painted)], columns=10)[1]


def test_the_first_column_keeps_a_minimum_width() -> None:
    row = ("01a1e4ab-2c44", "digits-of-last-night", "completed", "2 minutes ago")
    assert output.table(("ID", "NAME", "STATUS", "SUBMITTED"), [row], columns=45)[1].startswith(
        "01a1e4ab-2c44  "
    )


def test_a_row_that_does_not_fit_becomes_lines() -> None:
    row = (
        "01a1e4ab",
        "digits-of-last-night",
        "completed",
        "2 minutes ago",
        "/a/path/that/is/longer/than/one/line",
    )
    heading = ("ID", "NAME", "STATUS", "SUBMITTED", "PLACE")
    assert output.table(heading, [row, ("2", *("x" * 9 for _ in range(4)))], columns=30) == [
        "ID         01a1e4ab",
        "NAME",
        "  digits-of-last-night",
        "STATUS     completed",
        "SUBMITTED  2 minutes ago",
        "PLACE",
        "  /a/path/that/is/longer/than/",
        "  one/line",
        "",
        "ID         2",
        "NAME       xxxxxxxxx",
        "STATUS     xxxxxxxxx",
        "SUBMITTED  xxxxxxxxx",
        "PLACE      xxxxxxxxx",
        "",
    ]


def test_in_a_pipe_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert output.table(("A", "B"), [("x" * 100, "y" * 100)])[1] == f"{'x' * 100}  {'y' * 100}"
    monkeypatch.setenv("COLUMNS", "80")
    assert max(len(line) for line in output.table(("A", "B"), [("x" * 100, "y" * 100)])) == 80


def test_field_values_are_aligned() -> None:
    assert output.fields([("a", "1"), ("long", "2")]) == ["a     1", "long  2"]


def test_no_color_overrides_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert output.use_colour()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not output.use_colour()


def test_a_cell_cannot_break_its_table() -> None:
    rows = [("1", "x\nfailed\x1b[2J\u202e", "y"), ("2", "z", "y")]
    assert output.table(("ID", "NAME", "B"), rows, columns=200) == [
        "ID  NAME                    B",
        "1   x\\nfailed\\x1b[2J\\u202e  y",
        "2   z                       y",
    ]


def test_printed_lines_contain_no_control_sequences(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output.emit(["tag \x1b]0;x\x07", "\x1b[31mred\x1b[0m"])
    output.emit_json({"name": "\x9b2J\u202e\x1b"})
    output.emit_json_line({"name": "\x7f"})
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    output.emit(["\x1b[31mred\x1b[0m \x1b[2J"])
    assert capsys.readouterr().out == "\x1b[31mred\x1b[0m \\x1b[2J\n"


def test_yaml_is_printable_and_keeps_its_meaning() -> None:
    value = {"tags": ["a\u202eb", "größe"]}
    text = output.dump_yaml(value)
    assert "\u202e" not in text
    assert yaml.safe_load(text) == value
    assert output.dump_yaml({"tags": ["größe"]}) == "tags:\n- größe\n"
