"""A machine without processes or sockets, for tests."""

from anygpu.cloudsim.instance import Instance


class StubMachine:
    """A machine that boots at once, runs nothing and records which of its methods were called."""

    def __init__(self, instance: Instance) -> None:
        self.host_key = f"ssh-ed25519 {instance.id}"
        self.console = ""
        self.up = False
        self.connected = True
        self.erased = False
        self.listens_on: set[str] = set()
        self.file_bytes: int | None = None

    async def boot(self) -> None:
        self.up = True

    async def halt(self) -> None:
        self.up = False
        self.listens_on.clear()

    async def erase_disk(self) -> None:
        self.erased = True

    async def listen(self, address: str) -> None:
        self.listens_on.add(address)

    async def stop_listening(self, address: str) -> None:
        self.listens_on.discard(address)

    def set_connected(self, connected: bool) -> None:
        self.connected = connected

    def limit_file_size(self, file_bytes: int | None) -> None:
        self.file_bytes = file_bytes
