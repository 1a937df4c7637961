/** How the machine of a job is used: a row with a small plot for GPU, CPU, memory, disk and network. */

import { useQuery } from "@tanstack/react-query";
import { useMemo, useState, type CSSProperties } from "react";
import { api, unwrap, type Schemas } from "@/api/client";
import {
  addSample,
  joinAttempts,
  machineRows,
  plotPaths,
  type MachineRow,
  type MachineSeries,
} from "@/charts/telemetry";
import { useJobMessages, useReconnected } from "@/live/hooks";
import { Button } from "@/ui/Button";
import { Icon } from "@/ui/Icon";
import { Menu } from "@/ui/Menu";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { isEnded } from "@/ui/Status";
import { useAddress } from "@/views/job/useAddress";
import "@/views/job/machine.css";

type Period = "hour" | "run";

const HOUR_S = 3600;
const PERIODS: Record<Period, string> = { hour: "Last hour", run: "Whole run" };
/** After this many live samples the history is read again. */
const MAX_ADDED = 720;
const BOX = { width: 200, height: 30 };

/** @param node the machine, of a job on several machines */
export function MachinePanel({ job, node = 0 }: { job: Schemas["JobDetails"]; node?: number }) {
  const [period, setPeriod] = usePeriod();
  const { rows, query, span } = useMachineRows(job, period, node);
  const nodes = job.attempts.at(-1)?.nodes ?? [];
  return (
    <section className="panel machine" aria-labelledby="machine-title">
      <header>
        <h2 id="machine-title">Machine</h2>
        {nodes.length > 1 && <span className="sub">Node {node}</span>}
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
  const [value, change] = useAddress("machine");
  return [value === "run" ? "run" : "hour", (period) => change(period === "run" ? period : "")];
}

/** The history that was read, with the samples that arrived since. */
interface LiveSeries {
  history: ReadonlyMap<string, MachineSeries>;
  series: ReadonlyMap<string, MachineSeries>;
  added: number;
}

function useMachineRows(job: Schemas["JobDetails"], period: Period, node: number) {
  const ended = isEnded(job.status);
  const endMs = job.ended_at === null ? null : Date.parse(job.ended_at);
  const query = useQuery({
    queryKey: ["telemetry", job.id, period, endMs, node],
    queryFn: async () => {
      const from = period === "hour" ? (endMs ?? Date.now()) - HOUR_S * 1000 : undefined;
      const params = {
        path: { ref: job.id },
        query: { points: 240, from_ms: from, node: node || undefined },
      };
      const history = await unwrap(api.GET("/api/v1/training/{ref}/telemetry", { params }));
      // The client's types turn pairs into arrays of any length.
      return joinAttempts(history as Schemas["TelemetryHistory"]);
    },
    // What arrived since is not in the cache: a panel that is shown again reads the history of a running job again.
    staleTime: ended ? Infinity : 0,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
  const { data, refetch } = query;
  const [live, setLive] = useState<LiveSeries | null>(null);
  const series = live !== null && live.history === data ? live.series : data;
  const add = (samples: Record<string, unknown>[]) => {
    if (data === undefined) return;
    setLive((before) => {
      const known = before?.history === data ? before : { history: data, series: data, added: 0 };
      const next = samples.reduce(addSample, known.series);
      return next === known.series ? before : { history: data, series: next, added: known.added + 1 };
    });
    // The history is down-sampled, so a page that stays open does not grow.
    if (live !== null && live.history === data && live.added >= MAX_ADDED)
      void refetch({ cancelRefetch: false });
  };
  useReconnected(() => {
    if (!ended && data !== undefined) void refetch();
  });
  useJobMessages(job.id, {
    include: ["progress"],
    node,
    cursor: ended || query.data === undefined ? null : { attempt: job.attempt },
    onMessages: (messages) => {
      add(messages.flatMap((each) => (each.kind === "progress" ? [each.telemetry] : [])));
    },
  });
  const rows = useMemo(() => machineRows(series ?? new Map()), [series]);
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
