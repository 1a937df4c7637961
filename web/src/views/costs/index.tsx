/** What the project has spent: the month, by day, at other providers, and predictions beside results. */

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { useSession } from "@/app/session";
import { PageTitle } from "@/app/TopBar";
import { Icon } from "@/ui/Icon";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { ByDay } from "@/views/costs/ByDay";
import { daysOfMonth, formatMonth } from "@/views/costs/calendar";
import { csvAddress, useCostSummary } from "@/views/costs/data";
import { Figures } from "@/views/costs/Figures";
import { MonthPicker } from "@/views/costs/MonthPicker";
import { PredictedPanel } from "@/views/costs/PredictedPanel";
import { ProvidersPanel } from "@/views/costs/ProvidersPanel";
import { formatSearch, parseSearch, type CostsSearch } from "@/views/costs/search";
import "@/views/costs/costs.css";

export default function CostsPage() {
  const { identity } = useSession();
  const raw = useSearch({ from: "/costs" });
  const search = useMemo(() => parseSearch(raw), [raw]);
  const navigate = useNavigate({ from: "/costs" });
  const change = (part: Partial<CostsSearch>) =>
    void navigate({ search: formatSearch({ ...search, ...part }), replace: true, resetScroll: false });
  const query = useCostSummary(search.month);
  const summary = query.data;
  if (summary === undefined) {
    return (
      <>
        <PageTitle text="Costs" />
        {query.error === null ? (
          <Skeleton label="Loading costs" />
        ) : (
          <ErrorState
            title="The costs could not be loaded"
            error={query.error}
            onRetry={() => void query.refetch()}
          />
        )}
      </>
    );
  }
  const thisMonth = summary.today.slice(0, 7);
  const month = search.month || thisMonth;
  const days = daysOfMonth(month);
  const last = month === thisMonth ? summary.today : days.at(-1)!;
  const range = { first: days[0]!, last: last < days[0]! ? days[0]! : last };
  const pick = (chosen: string) => change({ month: chosen === thisMonth ? "" : chosen });
  return (
    <>
      <PageTitle text={`Costs, ${formatMonth(month)}`}>
        <h1>Costs</h1>
        <MonthPicker month={month} first={summary.first_month ?? thisMonth} last={thisMonth} onPick={pick} />
        <a className="btn cost-csv" href={csvAddress(search.by, range.first, range.last)} download>
          <Icon name="download" size={14} />
          CSV
        </a>
      </PageTitle>
      {summary.first_month === null ? (
        <EmptyState title={`No costs in ${identity.project} yet`} command="anygpu run train.py">
          The page shows what jobs cost by day, person, backend, GPU and tag.
        </EmptyState>
      ) : (
        <>
          <Figures summary={summary} />
          <ByDay summary={summary} month={month} range={range} search={search} onChange={change} />
        </>
      )}
      <ProvidersPanel job={search.job} onPick={(job) => change({ job })} />
      <PredictedPanel what={search.what} onChange={(what) => change({ what })} />
    </>
  );
}
