/** Predictions of completed jobs beside their results. */

import { ratioPoints, type What } from "@/lib/ratio";
import { Segmented } from "@/ui/controls";
import { RatioKey, RatioTable } from "@/ui/RatioTable";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { useJudgedJobs } from "@/views/costs/data";

const CHOICES = [
  { value: "cost", label: "Cost" },
  { value: "time", label: "Time" },
] as const;

interface PredictedPanelProps {
  what: What;
  onChange: (what: What) => void;
}

export function PredictedPanel({ what, onChange }: PredictedPanelProps) {
  const query = useJudgedJobs();
  const rows = query.data === undefined ? undefined : ratioPoints(query.data.jobs, what, "before");
  return (
    <section className="panel" aria-labelledby="costs-predicted">
      <header>
        <h2 id="costs-predicted">Predicted and actual</h2>
        <RatioKey />
        <Segmented label="What was predicted" value={what} choices={CHOICES} onChange={onChange} />
      </header>
      {query.error !== null && (
        <ErrorState
          title="The predictions could not be loaded"
          error={query.error}
          onRetry={() => void query.refetch()}
        />
      )}
      {rows === undefined && query.error === null && <Skeleton label="Loading predictions" rows={3} />}
      {rows !== undefined &&
        (rows.length === 0 ? (
          <EmptyState small title={`No ${what} to compare yet`}>
            {what === "cost"
              ? "Jobs on rented machines appear here when they complete, if their cost was predicted."
              : "Jobs appear here when they complete, if their time was predicted."}
          </EmptyState>
        ) : (
          <RatioTable points={rows} what={what} />
        ))}
    </section>
  );
}
