"""One module per provider's own API. A module has `VENDOR` (what it rents out) and `app(cloud)` (its HTTP face).

A trailing underscore of a module's name is dropped: `lambda_.py` is served under `/lambda`. The shape of one:

    VENDOR = Vendor(name="example", regions={"here": ()}, types=(MachineType(name="a", price_microusd_per_hour=1),),
                    rule=Rule(step_s=60), credentials={"token": ""})

    def app(cloud: Cloud) -> ASGIApp:
        async def launch(request: Request) -> Response:
            cloud.admit(VENDOR, "launch", credential=bearer(request))       # refuses: credentials, throttling
            body = await request.json()
            key = cloud.keys.find(VENDOR, "", body["key"])                  # refuses: not found
            order = Order(vendor=VENDOR, type=body["type"], region=body["region"], public_keys=(key.public_key,))
            return JSONResponse({"id": cloud.rent(order).id})               # refuses: capacity, quota, type, region
        return Starlette(routes=[Route("/launch", launch, methods=["POST"])],
                         exception_handlers={Refusal: in_the_vendors_words})

`cloud.listed(VENDOR)` is what a list shows (it may lag), `cloud.find(VENDOR, id)` one machine as it is, `cloud.end`
ends it. `instance.state`, `.booted_at_ms`, `.address` and the SSH port (`cloud.ssh_port`) say what to show.
"""

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, cast

from starlette.types import ASGIApp

from anygpu.testing.cloud.cloud import Cloud
from anygpu.testing.cloud.vendor import Vendor


class Dialect(Protocol):
    """How one provider is spoken to. Refusals of the core are put in the vendor's own words and status codes."""

    VENDOR: Vendor

    def app(self, cloud: Cloud) -> ASGIApp:
        """Served under `/<vendor name>`; the prefix is already taken off the path it sees."""
        ...


def every() -> Mapping[str, Dialect]:
    """Every dialect there is, by its vendor's name."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__))
    modules = [cast("Dialect", import_module(f"{__name__}.{name}")) for name in names]
    return {module.VENDOR.name: module for module in modules if hasattr(module, "VENDOR")}
