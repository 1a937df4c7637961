/** The chart of one metric of several runs: a line for each run. */

import { countPoints, epochSource, resumeSteps, toEpochs, toStepRange } from "@/charts/attempt-source";
import type { ChartView } from "@/charts/chart-view";
import type { HoveredPoint } from "@/charts/hover";
import type { ChartContent, ChartSource } from "@/charts/LineChart";
import { attemptStretches, lastKeptStep, type ChartLine } from "@/charts/lines";
import type { MetricsFeed } from "@/charts/metrics-feed";
import type { SeriesData } from "@/charts/metrics-store";
import { factorForCount } from "@/charts/smoothing";
import { formatElapsedTick } from "@/charts/ticks";
import { formatCount, formatValue, plural } from "@/lib/format";
import type { Run } from "@/views/compare/runs";

const ZOOM_POINTS = 1000;

export interface RunChartOptions {
  name: string;
  runs: readonly Run[];
  feeds: ReadonlyMap<string, MetricsFeed>;
  view: Pick<ChartView, "axis" | "smoothing" | "logScale" | "zoom">;
}

export function runSource(options: RunChartOptions): ChartSource {
  const { name, runs, feeds } = options;
  const stores = runs.flatMap((run) => feeds.get(run.id)?.store ?? []);
  return {
    read: () => readContent(options),
    subscribe: (listener) => {
      const stops = stores.map((store) => store.subscribe(name, listener));
      return () => stops.forEach((stop) => stop());
    },
    retry: () => stores.forEach((store) => store.retry(name)),
    describePoint: (point) => describePoint(options, point),
  };
}

function readContent(options: RunChartOptions): ChartContent {
  const { name, runs, feeds, view } = options;
  const states: ChartContent["state"][] = [];
  const lines: ChartLine[] = [];
  let lowest = Infinity;
  for (const run of runs) {
    const feed = feeds.get(run.id);
    const summary = feed?.store.summaries.get(name);
    if (feed === undefined || summary === undefined) continue;
    const whole = feed.store.read(name);
    if (summary.min < lowest) lowest = summary.min;
    const { line, state } = zoomedLine(run, feed, whole, options);
    lines.push(line);
    states.push(state);
  }
  return {
    model: {
      lines,
      axis: view.axis === "time" ? "elapsed" : view.axis,
      logScale: view.logScale && lowest > 0,
      smoothing: view.smoothing > 0,
      zoom: view.zoom,
      overlaid: true,
      changes: [],
    },
    state: states.includes("failed") ? "failed" : "ready",
    newest: null,
    description: `${name} against ${view.axis}, ${plural(lines.length, "run")}: ${lines
      .map((line) => line.label)
      .join(", ")}`,
  };
}

function zoomedLine(run: Run, feed: MetricsFeed, whole: SeriesData, options: RunChartOptions) {
  const { name, view } = options;
  const line = runLine(run, feed, whole, options);
  const range = view.zoom === null ? null : toStepRange(view, [line], view.zoom);
  const data = range === null ? whole : feed.store.readRange(name, range, ZOOM_POINTS);
  return { line: data === whole ? line : runLine(run, feed, data, options), state: data.state };
}

/** The line of a run over all its attempts. Points that a later attempt computed again are left out. */
function runLine(run: Run, feed: MetricsFeed, data: SeriesData, { view }: RunChartOptions): ChartLine {
  const { job, id, label, color, dash } = run;
  const resumes = resumeSteps(job.attempts);
  const epochs = epochSource(job, [...feed.store.summaries.keys()]);
  const options = {
    axis: view.axis === "time" ? ("elapsed" as const) : view.axis,
    smoothing: factorForCount(view.smoothing, countPoints(data)),
    epochOf: view.axis === "epoch" ? toEpochs(epochs, feed.store) : null,
    startedAt: startOf(job, data),
  };
  const stretches = [...data.attempts]
    .sort(([a], [b]) => a - b)
    .flatMap(([attempt, columns]) => attemptStretches(columns, lastKeptStep(attempt, resumes), options))
    .filter((stretch) => !stretch.redone);
  return { id, label, color, dash, stretches };
}

/** When the run started, in Unix seconds. The clock of a machine may be behind that of the server. */
function startOf(job: Run["job"], data: SeriesData): number {
  const launched = Date.parse(job.attempts[0]?.launching_at ?? job.submitted_at) / 1000;
  const first = [...data.attempts.values()].map((columns) => columns.times.find(Number.isFinite) ?? Infinity);
  return Math.min(launched, ...first);
}

function describePoint({ view }: RunChartOptions, { line, stretch, index, x }: HoveredPoint) {
  const value = formatValue(stretch.values[index]!);
  const place: [string, string] =
    view.axis === "time"
      ? ["after", formatElapsedTick(x)]
      : view.axis === "epoch"
        ? ["epoch", formatValue(x)]
        : ["step", formatCount(stretch.steps[index]!)];
  return { title: line.label, color: line.color, value, rows: [place] };
}
