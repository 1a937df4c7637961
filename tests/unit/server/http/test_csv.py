"""Cells of CSV files that a spreadsheet cannot run."""

import pytest

from anygpu.server.http.csv import csv_response, safe_cell


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "|x", "%x", "  =1", "\n=2"]
)
def test_a_text_that_could_be_a_formula_gets_an_apostrophe(text: str) -> None:
    assert safe_cell(text) == f"'{text}"


@pytest.mark.parametrize(
    "value", ["aws", "a=b", "-1.500000", "12.5", 3, -4, 0.25, "", "2026-11-01", "no tag"]
)
def test_other_texts_and_numbers_stay(value: object) -> None:
    assert safe_cell(value) == str(value)


def test_cells_with_commas_and_quotation_marks_are_quoted() -> None:
    body = csv_response("costs.csv", [["a,b", 'say "hi"', "x\ny"]]).body
    assert bytes(body) == b'"a,b","say ""hi""","x\ny"\r\n'
