import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { CSSProperties } from "react";
import { api, unwrap } from "@/api/client";
import { formatDuration, formatMoney, shortId } from "@/lib/format";
import { Segmented } from "@/ui/controls";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import {
  offBy,
  ratioAxis,
  ratioPlace,
  ratioPoints,
  type RatioAxis,
  type RatioPoint,
  type Stage,
  type What,
} from "@/views/accuracy/ratio";

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
        <span className="key">
          <span>
            <i className="kd" />
            inside the interval
          </span>
          <span>
            <i className="kd out" />
            outside
          </span>
        </span>
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

function RatioTable({ points, what }: { points: readonly RatioPoint[]; what: What }) {
  const axis = ratioAxis(points);
  const format = what === "cost" ? formatMoney : formatDuration;
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label={`Predicted and actual ${what} by job`}>
      <table className="tbl acc2">
        <thead>
          <tr>
            <th>Job</th>
            <th className="dp">
              <span className="dpax">
                <i>{axis.low}</i>
                <i>as predicted</i>
                <i>{axis.high}</i>
              </span>
            </th>
            <th className="num">Predicted</th>
            <th className="num">Actual</th>
            <th className="num">Off by</th>
          </tr>
        </thead>
        <tbody>
          {points.map((point) => (
            <tr key={point.id}>
              <td className="med cut">
                <Link to="/jobs/$ref" params={{ ref: point.id }} search={{ tab: "plan" }}>
                  {point.name || shortId(point.id)}
                </Link>
              </td>
              <td className="dp">
                <RatioDot point={point} axis={axis} />
              </td>
              <td className="num">{format(point.predicted)}</td>
              <td className="num">{format(point.actual)}</td>
              <td className="num">{offBy(point.ratio)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function RatioDot({ point, axis }: { point: RatioPoint; axis: RatioAxis }) {
  const percent = (ratio: number) => `${(ratioPlace(ratio, axis.span) * 100).toFixed(1)}%`;
  const places = {
    "--low": percent(point.low),
    "--high": percent(point.high),
    "--at": percent(point.ratio),
  } as CSSProperties;
  const label = `${offBy(point.ratio)}, ${point.inside ? "inside" : "outside"} the interval`;
  return (
    <span className="dot-row" style={places} role="img" aria-label={label}>
      <i className="band" />
      <i className="one" />
      <i className={point.inside ? "d" : "d out"} />
    </span>
  );
}
