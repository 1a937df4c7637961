"""What the project does and spends now."""

from anygpu.api.jobs import ProjectSummary
from anygpu.server.http.route import api_router
from anygpu.server.jobs.project_summary import summarise_project
from anygpu.server.routes.costs import Zone
from anygpu.server.services import CallerDep, ServicesDep
from anygpu.tenancy.auth import Role

router = api_router("/api/v1", tag="training")


@router.get("/summary", response_description="The project now.")
async def get_summary(services: ServicesDep, caller: CallerDep, zone: Zone) -> ProjectSummary:
    """Show how many jobs are active, the machines that the project uses now with their price, and what it has spent.

    The operator also gets the number of machines without a job, which is read from the providers in the background.
    """
    is_operator = caller.role.includes(Role.OPERATOR)
    orphans = services.orphan_counter.newest() if is_operator else None
    spent = await services.costs.today_and_month(caller.scope, zone)
    return await summarise_project(services.journal, services.queue, caller.scope, orphans, spent)
