"""A machine that exists on paper only: for tests without sockets, and where no process is wanted."""

from anygpu.testing.cloud.instance import Instance


class PaperMachine:
    """Boots at once and runs nothing; remembers what was done to it."""

    def __init__(self, instance: Instance) -> None:
        self.host_key = f"ssh-ed25519 {instance.id}"
        self.console = ""
        self.up = False
        self.connected = True
        self.erased = False
        self.answers_at: set[str] = set()
        self.file_bytes: int | None = None

    async def boot(self) -> None:
        self.up = True

    async def halt(self) -> None:
        self.up = False
        self.answers_at.clear()

    async def erase(self) -> None:
        self.erased = True

    async def listen(self, address: str) -> None:
        self.answers_at.add(address)

    async def silence(self, address: str) -> None:
        self.answers_at.discard(address)

    def cut(self, connected: bool) -> None:
        self.connected = connected

    def limit_files(self, file_bytes: int | None) -> None:
        self.file_bytes = file_bytes
