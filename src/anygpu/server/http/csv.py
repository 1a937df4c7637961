"""Responses in CSV, safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable
from urllib.parse import quote

from starlette.responses import Response

# A spreadsheet runs a cell as a formula if it begins with one of these characters.
FORMULA_CHARACTERS = "=+-@\t\r\n|%"


def csv_response(file_name: str, rows: Iterable[Iterable[object]]) -> Response:
    """Return rows as a file to download."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerows([safe_cell(value) for value in row] for row in rows)
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file_name, safe='')}",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    body = text.getvalue().encode("utf-8", "replace")
    return Response(body, media_type="text/csv; charset=utf-8", headers=headers)


def safe_cell(value: object) -> str:
    """Return a cell as text. A text that a spreadsheet could run as a formula gets a leading apostrophe."""
    text = str(value).replace("\0", "\ufffd")
    is_number = isinstance(value, int | float) or _is_number(text)
    return f"'{text}" if text.lstrip(" ")[:1] in FORMULA_CHARACTERS and text and not is_number else text


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdecimal() and text.isascii()
