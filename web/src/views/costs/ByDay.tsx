/** Costs by day as bars, with the sums of each group beside them. */

import type { Schemas } from "@/api/client";
import { vars } from "@/lib/css";
import { Button } from "@/ui/Button";
import { Segmented } from "@/ui/controls";
import { Icon } from "@/ui/Icon";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { Breakdown } from "@/views/costs/Breakdown";
import { daysOfMonth, formatMonth } from "@/views/costs/calendar";
import { csvAddress, useCostTable } from "@/views/costs/data";
import { DayChart } from "@/views/costs/DayChart";
import { dayBars, seriesOf, type CostTable } from "@/views/costs/days";
import { DayTable } from "@/views/costs/DayTable";
import { GROUPINGS, type CostsSearch, type Grouping } from "@/views/costs/search";

const LABELS: Record<Grouping, string> = { backend: "Backend", gpu: "GPU", person: "Person", tag: "Tag" };
const CHOICES = GROUPINGS.map((value) => ({ value, label: LABELS[value] }));

interface ByDayProps {
  summary: Schemas["CostSummary"];
  month: string;
  range: { first: string; last: string };
  search: CostsSearch;
  onChange: (part: Partial<CostsSearch>) => void;
}

export function ByDay({ summary, month, range, search, onChange }: ByDayProps) {
  const { by } = search;
  const query = useCostTable(by, range.first, range.last);
  const table = query.data;
  const shown = table !== undefined && table.by === by && table.first_day === range.first ? table : undefined;
  return (
    <section className="panel" aria-labelledby="costs-by-day">
      <header>
        <h2 id="costs-by-day">By day</h2>
        {shown !== undefined && <Key table={shown} by={by} expects={summary.projection !== null} />}
        <a className="btn quiet cost-csv-small" href={csvAddress(by, range.first, range.last)} download>
          <Icon name="download" size={14} />
          CSV
        </a>
        <Button look="quiet" aria-pressed={search.table} onClick={() => onChange({ table: !search.table })}>
          {search.table ? "Chart" : "Table"}
        </Button>
        <Segmented
          label="Group by"
          value={by}
          choices={CHOICES}
          onChange={(value) => onChange({ by: value })}
        />
      </header>
      {query.error !== null && (
        <ErrorState
          title="The costs by day could not be loaded"
          error={query.error}
          onRetry={() => void query.refetch()}
        />
      )}
      {shown === undefined && query.error === null && <Skeleton label="Loading costs by day" />}
      {shown !== undefined && shown.groups.length === 0 && (
        <EmptyState small title={`No machine was used in ${formatMonth(month)}`} />
      )}
      {shown !== undefined && shown.groups.length > 0 && (
        <div className="day-grid">
          <Bars table={shown} {...{ summary, month, search }} />
          <Breakdown table={shown} by={by} heading={LABELS[by]} />
        </div>
      )}
    </section>
  );
}

function Key({ table, by, expects }: { table: CostTable; by: Grouping; expects: boolean }) {
  return (
    <span className="key day-key">
      {seriesOf(table, by).map((series) => (
        <span key={series.name} title={series.name}>
          <i className="swatch" style={vars({ "--c": `var(${series.colour})` })} />
          <span className="cut">{series.name}</span>
        </span>
      ))}
      {expects && (
        <span>
          <i className="swatch expected" />
          expected
        </span>
      )}
    </span>
  );
}

interface BarsProps {
  table: CostTable;
  summary: Schemas["CostSummary"];
  month: string;
  search: CostsSearch;
}

function Bars({ table, summary, month, search }: BarsProps) {
  const expected = summary.month === month ? (summary.projection?.days ?? []) : [];
  const days = dayBars(daysOfMonth(month), table, search.by, expected);
  if (days.every((day) => day.total === 0 && !day.expected)) {
    return (
      <EmptyState small title={`Nothing was paid in ${formatMonth(month)}`}>
        Only machines without a price were used.
      </EmptyState>
    );
  }
  return (
    <div className="body">
      {search.table ? (
        <DayTable days={days} month={formatMonth(month)} />
      ) : (
        <DayChart days={days} today={summary.today} month={formatMonth(month)} total={table.total.microusd} />
      )}
      {search.by === "tag" && table.overlap_microusd > 0 && (
        <p className="t3 small">A job with several tags counts for each of them; the bars share it.</p>
      )}
    </div>
  );
}
