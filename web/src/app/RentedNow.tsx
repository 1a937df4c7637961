import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/client";
import { formatMoney, plural } from "@/lib/format";

const monthName = new Intl.DateTimeFormat("en-GB", { month: "long" });

/** What the machines cost per hour now, and what was spent. Shown only if there is anything to pay for. */
export function RentedNow({ summary }: { summary: Schemas["ProjectSummary"] }) {
  const orphans = summary.machines_without_job ?? 0;
  if (summary.machines === 0 && orphans === 0 && summary.month_microusd === 0) return null;
  return (
    <Link className="meter" to="/machines" title="What is rented now">
      <dl>
        <dt className="sr">Rented now</dt>
        <dd className="now">
          {formatMoney(summary.hourly_microusd)} <small>per hour, rented now</small>
        </dd>
        <dt>{plural(summary.machines, "machine")}</dt>
        <dd className={orphans > 0 ? "bad" : undefined}>{orphans > 0 && `${orphans} without a job`}</dd>
        <dt>Today</dt>
        <dd>{formatMoney(summary.today_microusd)}</dd>
        <dt>{monthName.format(new Date())}</dt>
        <dd>{formatMoney(summary.month_microusd)}</dd>
      </dl>
    </Link>
  );
}
