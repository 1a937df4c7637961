"""Copy screenshots of the browser tests into docs/images: `.venv/bin/python -m scripts.update_screenshots`.

Run `tests/acceptance/web` first; it writes them to build/screenshots.
"""

import shutil
import sys

from scripts.build_web import BUILD, ROOT

IMAGES = ROOT / "docs" / "images"
SHOWN = {  # by name in docs/images
    "web-jobs": "jobs-desktop-light",
    "web-job": "job-metrics",
    "web-costs": "costs-filled-desktop-dark",
    "web-new-job": "new-chosen-offer",
}


def main() -> None:
    for name, source in SHOWN.items():
        path = BUILD / "screenshots" / f"{source}.png"
        if not path.exists():
            sys.exit(
                f"error: {path.relative_to(ROOT)} is missing; run the tests in tests/acceptance/web first"
            )
        shutil.copyfile(path, IMAGES / f"{name}.png")
    print(f"copied {len(SHOWN)} screenshots to {IMAGES.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
