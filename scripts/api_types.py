"""Generate the web app's API types (web/src/api/schema.d.ts) from the OpenAPI document.

python -m scripts.api_types            write the file
python -m scripts.api_types --check    fail if the file differs from what would be written
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.build_web import BUILD, MODULES, ROOT, WEB, WebBuildError, install_packages, require_node

TYPES = WEB / "src" / "api" / "schema.d.ts"
CHECKED = BUILD / "api-types.ok"  # the hash of the sources for which the types were last found equal


def main(words: Sequence[str]) -> None:
    try:
        if words == ["--check"]:
            check_types()
        elif words:
            sys.exit(__doc__)
        else:
            write_types(TYPES)
    except WebBuildError as error:
        sys.exit(f"error: {error}")


def check_types() -> None:
    """Raise WebBuildError if the committed types are not those of the API. Does nothing if no source changed."""
    current = _hash_sources()
    if CHECKED.exists() and CHECKED.read_text() == current:
        return
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="types-", dir=BUILD) as folder:
        made = Path(folder) / TYPES.name
        write_types(made)
        if not TYPES.exists() or made.read_text() != TYPES.read_text():
            name = TYPES.relative_to(ROOT)
            raise WebBuildError(f"{name} differs from the API; run `make web-types` and commit the file")
    CHECKED.write_text(current)


def write_types(target: Path) -> None:
    """Write the TypeScript types of the API. No server is started."""
    node = require_node()
    install_packages(node, development=False)
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="types-", dir=BUILD) as folder:
        document = Path(folder) / "openapi.json"
        document.write_text(json.dumps(openapi_document()))
        program = MODULES / "openapi-typescript" / "bin" / "cli.js"
        command = [str(node.program), str(program), str(document), "--output", str(target)]
        node.run("openapi-typescript", command)


def openapi_document() -> dict[str, object]:
    """Return the OpenAPI document that the server would answer with."""
    from anygpu import __version__
    from anygpu.server.app import describe_api

    return describe_api(__version__).openapi()


def _hash_sources() -> str:
    """Return a hash of the Python sources, the npm packages and the types."""
    files = [*sorted((ROOT / "src" / "anygpu").rglob("*.py")), WEB / "package-lock.json", TYPES]
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(ROOT)}\n".encode())
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()


if __name__ == "__main__":
    main(sys.argv[1:])
