"""Run one server process: `python -m anygpu.server --state DIR --port 0`. It prints one JSON line when ready."""

import argparse
import asyncio
import gc
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from anygpu.errors import AnygpuError
from anygpu.settings import Settings, load

FAILED = 1
INTERRUPTED = 130


def main() -> None:
    settings, accept_new_keys = _parse_arguments(sys.argv[1:])
    try:
        _prepare_fast_start()
        _run(settings, accept_new_keys)
    except AnygpuError as error:
        sys.stderr.write(f"anygpu: {error}\n")
        sys.exit(FAILED)


def _prepare_fast_start() -> None:
    """Postpone work that is not needed for the start, such as garbage collection."""
    gc.disable()  # a start creates only long-lived objects; `freeze_gc` enables it again
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    import pydantic

    default = pydantic.BaseModel.model_config
    pydantic.BaseModel.model_config = {**default, "defer_build": True}
    try:
        import fastapi  # noqa: F401 - its forty models of OpenAPI are built at the first use
    finally:
        pydantic.BaseModel.model_config = default


def _parse_arguments(arguments: list[str]) -> tuple[Settings, bool]:
    parser = argparse.ArgumentParser(prog="python -m anygpu.server", description="Run the anygpu server.")
    parser.add_argument("--state", help="state directory")
    parser.add_argument("--config", type=Path, help="settings file")
    parser.add_argument("--host", help="address of the API")
    parser.add_argument("--port", type=int, help="port of the API; 0 chooses a free port")
    parser.add_argument("--agent-port", type=int, help="port of the agent listener; 0 chooses a free port")
    parser.add_argument(
        "--accept-new-keys",
        action="store_true",
        help="start although a key file is missing or not the one this database was used with",
    )
    options = parser.parse_args(arguments)
    keys = {
        "state": options.state,
        "server.host": options.host,
        "server.port": options.port,
        "server.agent_port": options.agent_port,
    }
    overrides: dict[str, Any] = {key: value for key, value in keys.items() if value is not None}
    try:
        return load(options.config, overrides=overrides), options.accept_new_keys
    except AnygpuError as error:
        parser.error(str(error))


def _run(settings: Settings, accept_new_keys: bool) -> None:
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(_serve(settings, accept_new_keys))


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # uvloop is optional
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _serve(settings: Settings, accept_new_keys: bool) -> None:
    from anygpu.server.process import log
    from anygpu.wiring.server import run_server

    log.configure(settings.server.log_level, settings.server.log_format)
    stop = asyncio.Event()
    _install_signal_handlers(stop, settings.state / "server.json")
    async with run_server(settings, accept_new_keys=accept_new_keys) as address:
        sys.stdout.write(json.dumps(address) + "\n")
        sys.stdout.flush()
        await stop.wait()


def _install_signal_handlers(stop: asyncio.Event, address_file: Path) -> None:
    """Shut the server down cleanly at the first signal, and exit at once at the second.

    Exiting at once loses nothing that was acknowledged.
    """

    def on_signal() -> None:
        if stop.is_set():
            address_file.unlink(missing_ok=True)
            os._exit(INTERRUPTED)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)


if __name__ == "__main__":
    main()
