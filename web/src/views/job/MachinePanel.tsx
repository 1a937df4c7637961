/** How the machine of a job is used: a row with a small plot for GPU, CPU, memory, disk and network. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState, type CSSProperties } from "react";
import { api, unwrap, type Schemas } from "@/api/client";
import { addSample, joinAttempts, machineRows, plotPaths, type MachineRow } from "@/charts/telemetry";
import { useJobMessages } from "@/live/hooks";
import { Button } from "@/ui/Button";
import { Icon } from "@/ui/Icon";
import { Menu } from "@/ui/Menu";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { isEnded } from "@/ui/Status";
import "@/views/job/machine.css";

type Period = "hour" | "run";

const HOUR_S = 3600;
const PERIODS: Record<Period, string> = { hour: "Last hour", run: "Whole run" };
const BOX = { width: 200, height: 30 };

export function MachinePanel({ job }: { job: Schemas["JobDetails"] }) {
  const [period, setPeriod] = usePeriod();
  const { rows, query, span } = useMachineRows(job, period);
  return (
    <section className="panel machine" aria-labelledby="machine-title">
      <header>
        <h2 id="machine-title">Machine</h2>
        <Menu
          trigger={
            <Button look="quiet" className="small">
              {PERIODS[period]}
              <Icon name="chevronDown" size={12} />
            </Button>
          }
          items={(["hour", "run"] as const).map((each) => ({
            label: PERIODS[each],
            onSelect: () => setPeriod(each),
          }))}
        />
      </header>
      {query.error !== null && query.data === undefined ? (
        <ErrorState
          title="The measurements could not be loaded"
          error={query.error}
          onRetry={() => void query.refetch()}
        />
      ) : query.data === undefined ? (
        <Skeleton label="Loading measurements" rows={4} />
      ) : rows.length === 0 ? (
        <EmptyState small title={isEnded(job.status) ? "No measurements" : "No measurements yet"}>
          The agent measures the machine while the job prepares and trains.
        </EmptyState>
      ) : (
        <dl className="sysrows">
          {rows.map((row) => (
            <SystemRow key={row.key} row={row} span={span} />
          ))}
        </dl>
      )}
    </section>
  );
}

function usePeriod(): [Period, (period: Period) => void] {
  const search: Record<string, unknown> = useSearch({ strict: false });
  const navigate = useNavigate();
  const set = (period: Period) =>
    void navigate({
      to: ".",
      search: (before: Record<string, unknown>) => ({
        ...before,
        machine: period === "run" ? period : undefined,
      }),
      replace: true,
      resetScroll: false,
    });
  return [search.machine === "run" ? "run" : "hour", set];
}

function useMachineRows(job: Schemas["JobDetails"], period: Period) {
  const ended = isEnded(job.status);
  const endMs = job.ended_at === null ? null : Date.parse(job.ended_at);
  const query = useQuery({
    queryKey: ["telemetry", job.id, period, endMs],
    queryFn: async () => {
      const from = period === "hour" ? (endMs ?? Date.now()) - HOUR_S * 1000 : undefined;
      const params = { path: { ref: job.id }, query: { points: 240, from_ms: from } };
      const history = await unwrap(api.GET("/api/v1/training/{ref}/telemetry", { params }));
      // The client's types turn pairs into arrays of any length.
      return joinAttempts(history as Schemas["TelemetryHistory"]);
    },
    staleTime: Infinity,
  });
  const [samples, setSamples] = useState<Record<string, unknown>[]>([]);
  useJobMessages(job.id, {
    include: ["progress"],
    cursor: ended || query.data === undefined ? null : { attempt: job.attempt },
    onMessages: (messages) => {
      const fresh = messages.flatMap((each) => (each.kind === "progress" ? [each.telemetry] : []));
      if (fresh.length > 0) setSamples((before) => [...before, ...fresh].slice(-HOUR_S / 5));
    },
  });
  const series = useMemo(() => samples.reduce(addSample, query.data ?? new Map()), [query.data, samples]);
  const rows = useMemo(() => machineRows(series), [series]);
  return { rows, query, span: useMemo(() => timeSpan(rows, period), [rows, period]) };
}

function timeSpan(rows: readonly MachineRow[], period: Period): { from: number; to: number } {
  let from = Infinity;
  let to = -Infinity;
  for (const { lines } of rows) {
    for (const line of lines) {
      from = Math.min(from, line[0]?.[0] ?? Infinity);
      to = Math.max(to, line.at(-1)?.[0] ?? -Infinity);
    }
  }
  return { from: period === "hour" ? Math.max(from, to - HOUR_S) : from, to };
}

function SystemRow({ row, span }: { row: MachineRow; span: { from: number; to: number } }) {
  const box = { ...BOX, ...span, top: row.top };
  const paths = row.lines.flatMap((line) => plotPaths(line, box));
  return (
    <div className="sysrow" style={{ "--c": `var(${row.color})` } as CSSProperties}>
      <dt className="two">
        <b>{row.title}</b>
        <small className="cut" title={row.note}>
          {row.note}
        </small>
      </dt>
      <svg
        className="sysplot"
        viewBox={`0 0 ${BOX.width} ${BOX.height}`}
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        {row.lines.length === 1 &&
          paths.map((path, index) => <path key={index} className="area" d={closed(path)} />)}
        {paths.map((path, index) => (
          <path key={index} className="line" d={path} />
        ))}
      </svg>
      <dd className="num">{row.value}</dd>
    </div>
  );
}

/** The path down to the base line, for the filled area. */
function closed(path: string): string {
  const points = path.slice(1).split("L");
  const x = (point: string) => point.split(" ")[0];
  return `${path}L${x(points.at(-1)!)} ${BOX.height}L${x(points[0]!)} ${BOX.height}Z`;
}
