"""The link to one attempt's agent: log in, install and start the agent, and keep a tunnel open for it.

Reconnecting takes the same steps as connecting: the machine is asked to start the agent unless it runs, and
gets the new port of the tunnel. So a lost network, a laptop that was asleep and a restarted server are all
handled in the same way, and none of them restarts the training.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from anygpu.backends.contract import LaunchRequest, split_node_name
from anygpu.backends.ssh.bootstrap import BootstrapSession
from anygpu.backends.ssh.connection import SshConnector, SshLogin, disconnect, open_tunnel
from anygpu.backends.ssh.errors import (
    AttemptUnknown,
    BootstrapFailed,
    NoPython,
    SshRefused,
    SshUnreachable,
)
from anygpu.errors import LaunchError, NoCapacity
from anygpu.events.facts import Blame, Failure
from anygpu.spec.sections import Resources

if TYPE_CHECKING:
    import asyncssh


class LinkState(StrEnum):
    """The state of the connection to an attempt's agent."""

    CONNECTING = "connecting"  # not logged in yet
    BOOTSTRAPPING = "bootstrapping"  # logged in; the agent is being uploaded
    STARTING = "starting"  # the agent is being started
    UP = "up"  # the agent runs and its tunnel is open
    BROKEN = "broken"  # was up and reconnects now; the agent may still run
    EXITED = "exited"  # the machine reports that the agent has ended
    FAILED = "failed"  # the agent will not run: see `failure`
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequest:
    """The number of GPUs and CPUs to reserve for an attempt on a machine that several attempts share."""

    gpus: int = 0
    gpu_kind: str = ""  # the model of the GPUs, for a machine with several models
    cpus: int = 1
    cpu_count: int = 0  # CPU slots of the machine; 0: its number of processors
    owner: str = ""  # id of the server: servers that share a machine keep their attempts apart

    def as_request(self) -> dict[str, Any]:
        return {
            "gpus": self.gpus,
            "gpu_kind": self.gpu_kind,
            "cpus": self.cpus,
            "cpu_count": self.cpu_count,
            "owner": self.owner,
        }


def reattach_request(name: str) -> LaunchRequest:
    """Return a launch request that connects to the running agent of an earlier launch.

    It has no ticket, so it never starts an agent.
    """
    return LaunchRequest(name=name, job_id="", attempt=0, ticket="", agent_url="", resources=Resources())


class SshLink:
    """The connection to one attempt's agent: the SSH connection, the tunnel, and the state of the agent.

    Calls `on_change` when `state` or `detail` changes.
    """

    def __init__(
        self,
        login: Callable[[], Awaitable[SshLogin]],
        launch: LaunchRequest,
        *,
        connector: SshConnector,
        agent_target: tuple[str, int],
        on_change: Callable[[], None],
        share: SlotRequest | None = None,
        notices: str = "",
        python: str = "",
        booting: bool = True,
        deliver: bool = False,
        patience_s: float | None = None,
        tunnel: bool = True,
        node_address: str = "",
    ) -> None:
        """Create the link; `start` connects it.

        `share`: GPUs and CPUs to reserve, if other attempts use the machine. `notices`: the provider whose
        preemption notices the agent watches for. `booting`: the machine is new and may refuse logins for a
        while. `deliver`: only send the reports of a dead agent. `patience_s`: how many seconds to retry the
        login. For an attempt that an earlier server process may have started, this is the lease: until the
        lease ends, the agent may run although it cannot be reached. `tunnel`: the agent reaches the server through
        this connection; otherwise through the relay of its launch. `node_address`: where the other nodes of an
        attempt on several nodes reach this machine; empty: the agent determines it.
        """
        self._login = login
        self._launch = launch
        self._tunnel = tunnel
        self._connector = connector
        self._agent_target = agent_target
        self._on_change = on_change
        self._slots = share
        self._notices = notices
        self._node_address = node_address
        self._python = python
        self._booting = booting
        self._deliver = deliver
        self._inherited = patience_s is not None
        self._patience_s = connector.timing.patience_s if patience_s is None else patience_s
        self._timing = connector.timing
        self._task: asyncio.Task[None] | None = None
        self._tries = self._logins = 0
        self._retry_pause_s = self._timing.first_retry_s
        self._give_up_at = float("inf")
        self._was_up = not launch.ticket
        self._ready, self._ended = asyncio.Event(), asyncio.Event()
        self.state = LinkState.CONNECTING
        self.failure: Failure | None = None
        self.error: LaunchError | None = None
        self.detail = ""
        self.exit_code: int | None = None  # of the agent, once the machine reports it

    def start(self) -> None:
        if self._task is None:
            self._give_up_at = time.monotonic() + self._patience_s
            self._task = asyncio.create_task(self._run(), name=f"link {self._launch.name}")

    async def stop(self) -> None:
        """Disconnect. The agent keeps running."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.state not in (LinkState.FAILED, LinkState.EXITED):
            self.state = LinkState.STOPPED
        self._ready.set()

    async def wait_ready(self) -> LinkState:
        """Wait until the agent runs, has ended or cannot be started, or `stop` was called. Return the state."""
        await self._ready.wait()
        return self.state

    async def wait_ended(self) -> None:
        """Wait until the agent has ended or will certainly not run."""
        await self._ended.wait()

    async def _run(self) -> None:
        while not self._is_over():
            self._tries += 1
            try:
                await self._session()
            except LaunchError as error:
                self._record_error(error)
            except Exception as error:  # noqa: BLE001  for example, the address is not known yet
                self._record_error(SshUnreachable(f"{self._launch.name}: {error or type(error).__name__}"))
            if not self._is_over():
                await asyncio.sleep(self._next_pause_s())

    async def _session(self) -> None:
        """Connect, and start the agent or reconnect to it.

        Then wait until the connection is lost or the agent ends.
        """
        import asyncssh

        login = await self._login()
        connection = await self._connector.connect(login)
        try:
            self._logins += 1
            if not self._was_up:
                self._start_bootstrap_timer()
                self._set_state(LinkState.BOOTSTRAPPING, f"logged in to {login.machine}")
            await self._serve(connection, login)
        except (OSError, TimeoutError, asyncssh.Error) as error:
            raise _connection_lost(login, error) from error
        finally:
            await disconnect(connection)

    async def _serve(self, connection: "asyncssh.SSHClientConnection", login: SshLogin) -> None:
        async with asyncio.timeout(self._timing.bootstrap_s):
            url, session = await asyncio.gather(
                self._open_tunnel(connection, login),
                BootstrapSession.open(connection, machine=login.machine, python=self._python),
            )
            if not self._was_up:
                self._set_state(LinkState.STARTING, f"uploading the agent to {login.machine}")
            await session.send_request(self.start_request(url))
            self._handle_answer(await session.single_answer(), login)
        if self.state is LinkState.UP:
            ended = await session.next_answer()
            if ended is None:
                raise _connection_lost(login, ConnectionError("the connection was lost"))
            self._record_exit(ended, login)
        await self._keep_tunnel(connection)

    async def _open_tunnel(self, connection: "asyncssh.SSHClientConnection", login: SshLogin) -> str:
        """Open the tunnel and return its address on the machine; "" if the agent uses a relay."""
        if not self._tunnel:
            return ""
        return f"http://127.0.0.1:{await open_tunnel(connection, self._agent_target, login.machine)}"

    async def _keep_tunnel(self, connection: "asyncssh.SSHClientConnection") -> None:
        """Keep the tunnel open until `stop`, so that a dead agent's reports can be delivered through it."""
        await connection.wait_closed()

    def start_request(self, url: str) -> dict[str, Any]:
        """Return the request that starts the agent, with the address of its tunnel to the server, if it has one."""
        full_request: dict[str, Any] = {"do": "start", "target": self._launch.name}
        full_request |= {"tunnel": {"url": url}} if self._tunnel else {}
        if self._launch.ticket:
            full_request["ticket"] = {
                "protocol": 1,
                **self._way_to_server(),
                "name": self._launch.name,
                "ticket": self._launch.ticket,
                "notices": self._notices,
                **self._node_fields(),
            }
        return {**full_request, "deliver": self._deliver, **(self._slots.as_request() if self._slots else {})}

    def _way_to_server(self) -> dict[str, Any]:
        if self._tunnel:
            return {"rendezvous": "tunnel.json"}
        relay, node = self._launch.relay, split_node_name(self._launch.name)[1]
        return {"relay": relay[node] if relay else {}, "remote": True}

    def _node_fields(self) -> dict[str, Any]:
        if self._launch.nodes == 1:
            return {}
        node = split_node_name(self._launch.name)[1]
        return {"node": node, **({"address": self._node_address} if self._node_address else {})}

    def _handle_answer(self, answer: dict[str, Any], login: SshLogin) -> None:
        agent = answer["agent"]
        if agent in ("started", "alive"):
            self._was_up, self._retry_pause_s = True, self._timing.first_reconnect_s
            self._set_state(LinkState.UP, f"the agent runs on {login.machine}")
        elif agent in ("dead", "ended"):
            self._record_exit(answer, login)
        elif agent == "full":
            free = f"{answer['free']} of {answer['of']} {answer['what']}s are free"
            raise NoCapacity(
                f"{login.machine} has not enough free slots for the job: {free}",
                hint="No action is needed: the job waits until enough are free.",
            )
        else:
            raise AttemptUnknown(
                f"{login.machine} does not know the attempt {self._launch.name}; the job starts again on another "
                "machine"
            )

    # -- state -----------------------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        return self.state in (LinkState.FAILED, LinkState.EXITED)

    def _record_exit(self, answer: dict[str, Any], login: SshLogin) -> None:
        code = answer.get("exited")
        self.exit_code = 0 if code is None and answer.get("told") else code
        how = "" if code is None else f" with code {code}"
        self._set_state(LinkState.EXITED, f"the agent on {login.machine} has ended{how}")

    def _record_error(self, error: LaunchError) -> None:
        """Set the state after an error: failed for good, or waiting for a retry.

        If the agent has run before, the connection is retried forever, because the agent may still run.
        """
        if isinstance(error, AttemptUnknown | NoCapacity) or (not self._was_up and self._is_final(error)):
            self.error = error
            self.failure = Failure(code=error.code, message=self._failure_message(error), blame=Blame.LAUNCH)
            self._set_state(LinkState.FAILED, str(error))
        else:
            self._set_state(LinkState.BROKEN if self._was_up else LinkState.CONNECTING, str(error))

    def _failure_message(self, error: LaunchError) -> str:
        if isinstance(error, AttemptUnknown | NoCapacity):
            return str(error)
        step = (
            "preparing the machine"
            if self._logins and not isinstance(error, SshUnreachable)
            else "logging in"
        )
        return f"{step}: {error}"

    def _start_bootstrap_timer(self) -> None:
        if self._logins == 1 and not self._inherited:
            self._give_up_at = time.monotonic() + self._timing.bootstrap_s

    def _is_final(self, error: LaunchError) -> bool:
        time_is_up = time.monotonic() >= self._give_up_at
        if self._inherited and not isinstance(error, NoPython):
            return time_is_up
        if error.retryable or (self._booting and isinstance(error, SshRefused)):
            return self._tries >= self._timing.tries and time_is_up
        if isinstance(error, BootstrapFailed):
            return self._logins >= self._timing.tries or time_is_up
        return True

    def _next_pause_s(self) -> float:
        """Return the seconds before the next try. They are few at first, because the machine may be booting."""
        pause_s, most_s = self._retry_pause_s, self._timing.max_retry_s
        self._retry_pause_s = min(self._retry_pause_s * 2, most_s if self._was_up else min(most_s, 1.0))
        return pause_s

    def _set_state(self, state: LinkState, detail: str) -> None:
        changed = (state, detail) != (self.state, self.detail)
        self.state, self.detail = state, detail
        if state in (LinkState.UP, LinkState.FAILED, LinkState.EXITED):
            self._ready.set()
        if self._is_over():
            self._ended.set()
        if changed:
            self._on_change()


def _connection_lost(login: SshLogin, error: Exception) -> LaunchError:
    """Convert a timeout or connection failure during bootstrap to a LaunchError."""
    if isinstance(error, TimeoutError):
        return BootstrapFailed(
            f"{login.machine}: the agent did not start in time. Check the load of the machine and the network",
            step="bootstrap",
        )
    text = str(error) or type(error).__name__
    return SshUnreachable(
        f"The SSH connection to {login.machine} was lost: {text}. It is opened again automatically.",
        machine=login.machine,
        step="ssh",
    )
