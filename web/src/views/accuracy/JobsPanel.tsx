import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { api, unwrap } from "@/api/client";
import { ratioPoints, type Stage, type What } from "@/lib/ratio";
import { Segmented } from "@/ui/controls";
import { RatioKey, RatioTable } from "@/ui/RatioTable";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";

const JOBS = 100;
const REFRESH_MS = 30_000;

/** A dot for each job on a ratio axis, with the predicted interval as a band. */
export function JobsPanel() {
  const search = useSearch({ from: "/accuracy" });
  const navigate = useNavigate({ from: "/accuracy" });
  const what: What = search["what"] === "cost" ? "cost" : "time";
  const stage: Stage = search["stage"] === "first-steps" ? "first-steps" : "before";
  const change = (changes: object) =>
    void navigate({ search: { ...search, ...changes }, replace: true, resetScroll: false });
  const query = useQuery({
    queryKey: ["accuracy jobs"],
    queryFn: () => unwrap(api.GET("/api/v1/accuracy/jobs", { params: { query: { limit: JOBS } } })),
    refetchInterval: REFRESH_MS,
  });
  const points = ratioPoints(query.data?.jobs ?? [], what, stage);
  return (
    <section className="panel" aria-labelledby="predicted-actual">
      <header>
        <h2 id="predicted-actual">Predicted and actual</h2>
        <RatioKey />
        <Segmented
          label="When it was predicted"
          value={stage}
          choices={[
            { value: "before", label: "Before it ran" },
            { value: "first-steps", label: "After its first steps" },
          ]}
          onChange={(next) => change({ stage: next === "before" ? undefined : next })}
        />
        <Segmented
          label="What was predicted"
          value={what}
          choices={[
            { value: "time", label: "Time" },
            { value: "cost", label: "Cost" },
          ]}
          onChange={(next) => change({ what: next === "time" ? undefined : next })}
        />
      </header>
      {query.error !== null && query.data === undefined ? (
        <ErrorState
          title="The jobs could not be loaded"
          error={query.error}
          onRetry={() => void query.refetch()}
        />
      ) : query.data === undefined ? (
        <Skeleton label="Loading the jobs" rows={4} />
      ) : points.length === 0 ? (
        <EmptyState small title={`No job with a predicted ${what}`}>
          {what === "cost"
            ? "Jobs on your own machines cost nothing. Look at the time instead."
            : "Choose the other stage, or wait until a predicted job has completed."}
        </EmptyState>
      ) : (
        <RatioTable points={points} what={what} />
      )}
    </section>
  );
}
