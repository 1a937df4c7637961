"""Boxes of one's own, over SSH. No root, no Docker; GPUs are shared by locks on the box, also with other people."""

import asyncio
import contextlib
import getpass
import hashlib
import hmac
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from anygpu.backends.contract import Account, Launch, Observation, Shell, State
from anygpu.backends.ssh.boxes import Box, Look
from anygpu.backends.ssh.connection import Dialer
from anygpu.backends.ssh.link import Link, LinkState, Share, known_by_name
from anygpu.backends.ssh.login import Login, SshTiming
from anygpu.backends.ssh.offering import account, cpus_of, gpus_of, offer_of
from anygpu.backends.ssh.options import Options, parted
from anygpu.backends.ssh.pins import Pins
from anygpu.errors import AnygpuError, BackendUnavailable, LaunchRefused
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources

if TYPE_CHECKING:
    from anygpu.backends.registry import Around

__all__ = ["Options", "SshBackend", "open_backend"]

LAUNCH_S = 120.0
DELIVER_S = 3_600.0
COMING = (LinkState.CONNECTING, LinkState.BOOTSTRAPPING, LinkState.STARTING)


async def open_backend(name: str, options: Options, around: "Around") -> "SshBackend":
    opened = SshBackend(
        name,
        options,
        secret=around.secret,
        agent_target=around.agent_target,
        pins=Pins(around.pins),
        on_change=around.on_change,
    )
    opened.begin()
    return opened


class SshBackend:
    """Runs attempts on boxes that are always there. Handles need only a name: boxes are few, so each is asked."""

    probe_every_s = 0.0

    def __init__(
        self,
        name: str,
        options: Options,
        *,
        secret: bytes,
        agent_target: tuple[str, int],
        pins: Pins,
        on_change: Callable[[str], None] = lambda name: None,
        timing: SshTiming | None = None,
    ) -> None:
        self.name = name
        self._options = options
        self._agent_target = agent_target
        self._on_change = on_change
        self._dialer = Dialer(pins, timing)
        self._owner = hmac.new(secret, b"owner of attempts on boxes", hashlib.sha256).hexdigest()[:12]
        self._boxes = {box.name: box for box in self._opened(options)}
        self._links: dict[str, Link] = {}
        self._touched: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """After a restart: what still runs on the boxes is looked at now, not when its turn comes."""
        self._beside(self._remind())

    async def offers(self, need: Resources) -> Sequence[Offer]:
        """A box that does not answer is offered as it was, with the reason why it must wait."""
        boxes = list(self._boxes.values())
        looks = await asyncio.gather(*(box.known() for box in boxes))
        return [
            offer_of(box, look, need, backend=self.name, options=self._options)
            for box, look in zip(boxes, looks, strict=True)
        ]

    async def launch(self, launch: Launch, offer: Offer) -> Handle:
        """Returns when the agent runs on the box, so that what is needed to find it again lies there."""
        box = self._boxes.get(offer.name)
        if box is None:
            raise LaunchRefused(f"{self.name} has no box {offer.name!r}", hint="Plan the job again.")
        link = self._links.get(launch.name)
        if link is None or link.state is LinkState.FAILED:
            link = self._linked(box, launch)
        await self._settled(link, launch.name, box)
        self._touched[launch.name] = time.monotonic()
        return Handle(name=launch.name, native={"box": box.name})

    async def probe(self, handle: Handle) -> Observation:
        link = self._links.get(handle.name)
        if link is not None and link.state is LinkState.UP:
            return Observation(state=State.RUNNING, detail=link.detail)
        if link is not None and link.state is LinkState.FAILED:
            return Observation(state=State.EXITED, detail=link.detail, failure=link.failure)
        if link is not None and link.state in COMING:
            return Observation(state=State.PENDING, detail=link.detail)
        return await self._looked_for(handle, link)

    async def terminate(self, handle: Handle) -> None:
        link = self._links.pop(handle.name, None)
        if link is not None:
            await link.stop()
        self._touched[handle.name] = time.monotonic()
        boxes = self._where(handle)
        request = {"do": "kill", "target": handle.name}
        answers = await asyncio.gather(*(box.ask(request) for box in boxes), return_exceptions=True)
        self._touched[handle.name] = time.monotonic()
        _confirmed(handle.name, answers)

    async def inventory(self) -> Sequence[Handle]:
        looks = await self._looks(list(self._boxes.values()), newer_than=time.monotonic())
        return [
            Handle(name=name, native={"box": box})
            for box, look in looks.items()
            if isinstance(look, Look)
            for name in look.names
        ]

    async def deliver(self, handle: Handle) -> None:
        """Send what a dead agent left on its box; goes on after we return."""
        for box in self._where(handle):
            link = self._made(box, known_by_name(handle.name), lambda: None, deliver=True)
            self._beside(_delivered(link))

    async def check(self) -> Account:
        looks = await self._looks(list(self._boxes.values()), newer_than=time.monotonic())
        return account({name: _words(look) for name, look in looks.items()})

    async def shell(self, handle: Handle) -> Shell:
        for box in self._where(handle):
            if len(self._boxes) == 1 or handle.name in (await box.look()).names:
                return self._shell(box.login)
        raise BackendUnavailable(f"no box of {self.name} runs {handle.name}")

    async def close(self) -> None:
        """Let go of the agents, which go on without us."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(
            *self._tasks, *(link.stop() for link in self._links.values()), return_exceptions=True
        )
        await asyncio.gather(*(box.close() for box in self._boxes.values()))

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _remind(self) -> None:
        for handle in await self.inventory():
            self._on_change(handle.name)

    # -- boxes ------------------------------------------------------------------------------------------------

    def _opened(self, options: Options) -> Sequence[Box]:
        how: dict[str, Any] = {"owner": self._owner, "cpu_count": options.cpus, "python": options.python}
        logins = [self._login(address) for address in options.addresses]
        return [Box(login, self._dialer, **how) for login in logins]

    def _login(self, address: str) -> Login:
        user, host, port = parted(address)
        alone = len(self._options.addresses) == 1
        return Login(
            machine=self.name if alone else address,
            host=host,
            port=port,
            user=user,
            private_key=self._options.private_key.get_secret_value(),
            identity=self._options.identity,
            host_keys=self._options.host_keys,
        )

    def _shell(self, login: Login) -> Shell:
        return Shell(
            host=login.host,
            port=login.port,
            user=login.user or getpass.getuser(),  # as ssh itself would
            private_key="",  # the server's key is a credential; whoever may log in has a key of their own
            host_keys=login.host_keys or self._dialer.pins.known(login.pin_name),
        )

    def _where(self, handle: Handle) -> Sequence[Box]:
        """The box an attempt was launched on, or all of them when only its name is known."""
        chosen = handle.native.get("box")
        if chosen is None:
            return list(self._boxes.values())
        if chosen not in self._boxes:
            raise BackendUnavailable(f"{handle.name} runs on {chosen}, which {self.name} no longer has")
        return [self._boxes[chosen]]

    async def _looks(self, boxes: Sequence[Box], newer_than: float) -> dict[str, Look | BaseException]:
        looks = await asyncio.gather(*(box.look(newer_than) for box in boxes), return_exceptions=True)
        return {box.name: look for box, look in zip(boxes, looks, strict=True)}

    async def _looked_for(self, handle: Handle, link: Link | None) -> Observation:
        """The box's own word: what of the attempt runs there. A broken connection is only a reason to ask."""
        newer_than = max(self._touched.get(handle.name, 0.0), time.monotonic() - 1)
        looks = await self._looks(self._where(handle), newer_than)
        for name, look in looks.items():
            if isinstance(look, Look) and handle.name in look.names:
                return self._found(handle.name, self._boxes[name], link)
        silent = [look for look in looks.values() if not isinstance(look, Look)]
        if silent:
            raise silent[0]
        await self._forget(handle.name)
        return Observation(state=State.GONE, detail="no process is left on the box")

    def _found(self, name: str, box: Box, link: Link | None) -> Observation:
        if link is not None and link.state is LinkState.EXITED:
            return Observation(state=State.EXITED, detail=f"{link.detail}; some of its processes are left")
        if link is None:
            self._linked(box, known_by_name(name))
        return Observation(
            state=State.RUNNING, detail=f"the agent runs on {box.name}; it is being reached again"
        )

    # -- links ------------------------------------------------------------------------------------------------

    def _linked(self, box: Box, launch: Launch) -> Link:
        link = self._made(box, launch, lambda: self._changed(launch.name))
        self._links[launch.name] = link
        link.start()
        return link

    def _changed(self, name: str) -> None:
        """What was seen of it before proves nothing now."""
        self._touched[name] = time.monotonic()
        self._on_change(name)

    def _made(
        self, box: Box, launch: Launch, on_change: Callable[[], None], *, deliver: bool = False
    ) -> Link:
        async def login() -> Login:
            return box.login

        share = Share(
            gpus=gpus_of(launch.resources),
            cpus=cpus_of(launch.resources),
            cpu_count=box.cpu_count,
            owner=self._owner,
        )
        return Link(
            login,
            launch,
            dialer=self._dialer,
            agent_target=self._agent_target,
            on_change=on_change,
            share=share,
            python=box.python,
            booting=False,
            deliver=deliver,
        )

    async def _settled(self, link: Link, name: str, box: Box) -> None:
        try:
            async with asyncio.timeout(LAUNCH_S):
                state = await link.settled()
        except TimeoutError as error:
            await self._forget(name)
            words = f"{box.name} did not start the agent in {LAUNCH_S:g} s: {link.detail}"
            raise BackendUnavailable(words) from error
        if state is LinkState.FAILED and link.error is not None:
            await self._forget(name)
            raise link.error
        if state is LinkState.STOPPED:
            raise BackendUnavailable(f"{name} was ended while it was being started on {box.name}")

    async def _forget(self, name: str) -> None:
        link = self._links.pop(name, None)
        if link is not None:
            await link.stop()


async def _delivered(link: Link) -> None:
    link.start()
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DELIVER_S):
                await link.ended()
    finally:
        await link.stop()


def _confirmed(name: str, answers: Sequence[dict[str, Any] | BaseException]) -> None:
    """Ended only when a box that knows it says so, or every box says that it does not."""
    known = [answer for answer in answers if isinstance(answer, dict) and answer["known"]]
    if any(not answer["gone"] for answer in known):
        raise BackendUnavailable(f"processes of {name} do not die; they may wait for a device")
    silent = [answer for answer in answers if isinstance(answer, BaseException)]
    if silent and not known:
        raise silent[0]


def _words(look: Look | BaseException) -> Look | str:
    if isinstance(look, Look):
        return look
    return str(look) if isinstance(look, AnygpuError) else repr(look)
