"""The HTTP APIs of the simulated vendors (cloud providers), one module or package for each vendor.

Each module defines `VENDOR`, which describes regions, machine types, prices and credentials, and
`app(cloud)`, which returns the ASGI application of the API. The application is served under `/<vendor name>`,
for example `/lambda` for `lambda_.py`. A module looks like this:

    VENDOR = SimVendor(
        name="example",
        regions={"here": ()},
        types=(MachineType(name="a", price_microusd_per_hour=1),),
        billing_rule=SimBillingRule(step_s=60),
        credentials={"token": ""},
    )

    def app(cloud: Cloud) -> ASGIApp:
        async def launch(request: Request) -> Response:
            cloud.authorize(VENDOR, "launch", credential=bearer_token(request))  # CloudError: credentials, throttling
            body = await request.json()
            key = cloud.keys.find(VENDOR, "", body["key"])                       # CloudError: not found
            order = InstanceOrder(
                vendor=VENDOR, type=body["type"], region=body["region"], public_keys=(key.public_key,)
            )
            return JSONResponse({"id": cloud.launch(order).id})                  # CloudError: capacity, quota, region

        route = Route("/launch", launch, methods=["POST"])
        return Starlette(routes=[route], exception_handlers={CloudError: error_response})

`cloud.list_instances(VENDOR)` returns the instances that a list request shows, which may be an older state;
`cloud.find_instance(VENDOR, id)` returns the current state of one instance; `cloud.terminate` ends it.
"""

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, cast

from starlette.types import ASGIApp

from anygpu.cloudsim.cloud import Cloud
from anygpu.cloudsim.vendor import SimVendor


class VendorApi(Protocol):
    """A module with the API of one vendor.

    The module translates each `CloudError` to the vendor's error response.
    """

    VENDOR: SimVendor

    def app(self, cloud: Cloud) -> ASGIApp:
        """Return the application served under `/<vendor name>`. Paths in the application omit that prefix."""
        ...


def load_apis() -> Mapping[str, VendorApi]:
    """Import all vendor APIs and return them by vendor name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [cast("VendorApi", import_module(f"{__name__}.{name}")) for name in names]
    return {module.VENDOR.name: module for module in modules if hasattr(module, "VENDOR")}
