"""Show the request that a backend would send to start a job: a batch script, a manifest, or the body of an API call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anygpu.backends.contract import (
    HIDDEN_TICKET,
    Backend,
    LaunchRequest,
    NativeRequest,
    SupportsNativeRequest,
)
from anygpu.backends.manager import BackendManager
from anygpu.backends.relay.contract import find_relay
from anygpu.control.ids import attempt_name
from anygpu.control.policy import ControlPolicy
from anygpu.errors import NoBackendFits, NotFound
from anygpu.events.offers import Offer
from anygpu.server.jobs.submission.planning import JobPlanner
from anygpu.spec.jobspec import JobSpec
from anygpu.store.scope import Scope

EXAMPLE_JOB = "00000000-0000-7000-8000-000000000000"  # stands for the id that a submitted job gets


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferChoice:
    """Which offer to show: its backend, name and region, each as a plan has it. Empty: the best one."""

    backend: str = ""
    name: str = ""
    region: str = ""

    def matches(self, offer: Offer) -> bool:
        wanted = ((self.backend, offer.backend), (self.name, offer.name), (self.region, offer.region))
        return all(not name or name == found for name, found in wanted)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.backend, self.name, self.region)))


class NativeRequestReader:
    """Asks backends for the requests of a launch. Nothing is sent, started or stored."""

    def __init__(
        self, backends: BackendManager, planner: JobPlanner, policy: ControlPolicy, agent_url: str
    ) -> None:
        self._backends, self._planner = backends, planner
        self._policy, self._agent_url = policy, agent_url

    async def read(
        self, spec: JobSpec, scope: Scope, files: Mapping[str, str], choice: OfferChoice
    ) -> tuple[Offer, Sequence[NativeRequest]]:
        """Return the chosen offer for a job, and the requests that would start the job there.

        Raise NoBackendFits if no offer of a configured backend fits, and NotFound if the backend cannot show its
        requests.
        """
        offer = await self._choose(spec, scope.organisation, files, choice)
        backend = self._backends[offer.backend]
        if not isinstance(backend, SupportsNativeRequest):
            raise NotFound(f"The backend {offer.backend!r} cannot show the requests that it sends.")
        launch = self._launch_request(backend, spec, scope, offer)
        return offer, await backend.native_requests(launch, offer)

    async def _choose(
        self, spec: JobSpec, organisation: str, files: Mapping[str, str], choice: OfferChoice
    ) -> Offer:
        found = await self._planner.first_configured(spec, organisation, files, choice.matches)
        if found is not None:
            return found
        wanted = f"offer {str(choice)!r}" if str(choice) else "offer"
        raise NoBackendFits(
            f"No {wanted} of a configured backend fits this job, so there is no request to show.",
            hint="`anygpu plan --rejected` lists the offers, and why they do not fit; `anygpu backend add` adds a "
            "backend.",
        )

    def _launch_request(self, backend: Backend, spec: JobSpec, scope: Scope, offer: Offer) -> LaunchRequest:
        nodes = spec.resources.nodes
        return LaunchRequest(
            name=attempt_name(EXAMPLE_JOB, 1),
            job_id=EXAMPLE_JOB,
            attempt=1,
            ticket=HIDDEN_TICKET,
            agent_url=self._agent_url,
            resources=spec.resources,
            max_run_s=self._policy.max_run_s(spec, offer),
            lease_s=self._policy.lease_for(offer),
            image=spec.image or "",
            organisation=scope.organisation,
            project=scope.project,
            nodes=nodes,
            relay=tuple({} for _ in range(nodes)) if find_relay(backend) is not None else (),
        )
