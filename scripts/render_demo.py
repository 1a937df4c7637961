"""Run `anygpu demo` and draw its result as docs/images/demo.svg: `.venv/bin/python scripts/render_demo.py`."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images" / "demo.svg"
COLUMNS = 100
FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # they load fonts from the network


def main() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("anygpu")), "demo"],
        env={**os.environ, "COLUMNS": str(COLUMNS)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"anygpu demo ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text("$ make demo"))
    for line in summary(done.stdout.splitlines()):
        console.print(Text(line))
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(FONT_FACES.sub("", console.export_svg(title="anygpu demo")))
    print(f"wrote {TARGET.relative_to(ROOT)}")


def summary(lines: list[str]) -> list[str]:
    """The events of the demo and its report, without progress lines and charts."""
    events = [line for line in lines if line.endswith(".") and not re.match(r"(queued|running) ", line)]
    unique = [line for number, line in enumerate(events) if number == 0 or line != events[number - 1]]
    report = next(number for number, line in enumerate(lines) if line.startswith("Demo finished"))
    end = lines.index("Next steps:")
    return [*(line for line in unique if line != lines[report]), "", *lines[report:end]]


if __name__ == "__main__":
    main()
