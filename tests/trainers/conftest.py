"""Heavy frameworks on a small machine: offline, one thread each, and nothing of the server is needed."""

import os
from collections.abc import Iterator

import pytest

ALONE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "YOLO_OFFLINE": "1",
    "YOLO_AUTOINSTALL": "false",
    "WANDB_MODE": "offline",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "MPLBACKEND": "agg",
}
# Two trainings at a time on two cores; and sums in the same order, which a bit-for-bit comparison needs.
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
# Whatever asks for a page all the same, in any process, is refused on loopback.
NOWHERE = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
HERE = dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost")
os.environ.update(ALONE | THREADS | NOWHERE | HERE)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "default")  # the frameworks' deprecations are not ours to mend


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test here the time that several trainings in a row take on a slow machine."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session", autouse=True)
def leave_no_agents() -> None:
    """No server is installed here, so no agent can be left."""


@pytest.fixture(scope="session", autouse=True)
def settings_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Frameworks keep settings and caches in the home directory; tests leave none there."""
    home = tmp_path_factory.mktemp("settings")
    places = ("YOLO_CONFIG_DIR", "HF_HOME", "TORCH_HOME", "MPLCONFIGDIR", "WANDB_DIR", "WANDB_CACHE_DIR")
    with pytest.MonkeyPatch.context() as patch:
        for place in places:
            patch.setenv(place, str(home))
        yield
