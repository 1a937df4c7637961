/** The chart of one metric of one job: a line for each attempt. */

import type { Schemas } from "@/api/client";
import type { ChartView } from "@/charts/chart-view";
import type { HoveredPoint } from "@/charts/hover";
import { stepsBetween } from "@/charts/hover";
import type { ChartContent, ChartSource } from "@/charts/LineChart";
import {
  attemptColor,
  attemptStretches,
  epochScale,
  lastKeptStep,
  lineStart,
  type ChartLine,
  type LineOptions,
  type ResumeSteps,
} from "@/charts/lines";
import { epochMetric } from "@/charts/metric-groups";
import { lineRange } from "@/charts/plot-layout";
import type { MetricsStore, SeriesData, StepRange } from "@/charts/metrics-store";
import { factorForCount } from "@/charts/smoothing";
import { formatCount, formatValue, plural } from "@/lib/format";
import { clockTime, shortTime } from "@/lib/time";

const ZOOM_POINTS = 2000;

export type AttemptFacts = Pick<Schemas["AttemptDetails"], "number" | "backend" | "resume_step">;

export interface AttemptChartOptions {
  store: MetricsStore;
  name: string;
  view: Pick<ChartView, "axis" | "smoothing" | "logScale" | "zoom" | "hidden">;
  attempts: readonly AttemptFacts[];
  epochs: EpochSource;
}

/** How steps become epochs: by a metric that the script reports, or by the numbers of steps and epochs of the job. */
export type EpochSource = { metric: string } | { perStep: number } | null;

export function attemptSource(options: AttemptChartOptions): ChartSource {
  const { store, name, epochs, view } = options;
  const epochName = view.axis === "epoch" && epochs !== null && "metric" in epochs ? epochs.metric : null;
  return {
    read: () => readContent(options),
    subscribe: (listener) => {
      const stops = [name, ...(epochName === null ? [] : [epochName])].map((each) =>
        store.subscribe(each, listener),
      );
      return () => stops.forEach((stop) => stop());
    },
    retry: () => store.retry(name),
    describePoint: (point) => describePoint(options, point),
  };
}

function readContent(options: AttemptChartOptions): ChartContent {
  const { store, name, view } = options;
  const whole = store.read(name);
  const wholeLines = buildLines(whole, options);
  const range = view.zoom === null ? null : toStepRange(view, wholeLines, view.zoom);
  const data = range === null ? whole : store.readRange(name, range, ZOOM_POINTS);
  const lines = data === whole ? wholeLines : buildLines(data, options);
  const summary = store.summaries.get(name);
  return {
    model: {
      lines,
      axis: view.axis,
      logScale: view.logScale && !(summary !== undefined && summary.min <= 0),
      smoothing: view.smoothing > 0,
      zoom: view.zoom,
      whole: lineRange(wholeLines),
      overlaid: false,
      changes: wholeLines
        .slice(1)
        .map(lineStart)
        .filter((start) => start !== null),
    },
    state: data.state,
    newest: summary === undefined ? null : { value: summary.last, color: attemptColor(summary.attempt) },
    description: describe(options, lines.length),
  };
}

function toLineOptions({ view, epochs, store }: AttemptChartOptions, points: number): LineOptions {
  const { axis } = view;
  const epochOf = axis === "epoch" ? toEpochs(epochs, store) : null;
  return { axis, smoothing: factorForCount(view.smoothing, points), epochOf };
}

/** A function from step to epoch, if it is known. */
export function toEpochs(epochs: EpochSource, store: MetricsStore): ((step: number) => number) | null {
  if (epochs === null) return null;
  if ("perStep" in epochs) return (step) => step * epochs.perStep;
  return reportedEpochs(store.read(epochs.metric));
}

type EpochScale = ReturnType<typeof epochScale>;

/** The scale of each series of epochs. All charts of a job use the same one until points are added. */
const scales = new WeakMap<SeriesData, { version: number; scale: EpochScale }>();

function reportedEpochs(data: SeriesData): EpochScale {
  const known = scales.get(data);
  if (known?.version === data.version) return known.scale;
  const reported = [...data.attempts.values()];
  const steps = reported.flatMap((columns) => columns.steps);
  const values = reported.flatMap((columns) => columns.values);
  const scale = epochScale(steps, values);
  scales.set(data, { version: data.version, scale });
  return scale;
}

export function countPoints(data: SeriesData): number {
  return [...data.attempts.values()].reduce((sum, columns) => sum + columns.values.length, 0);
}

export function resumeSteps(attempts: readonly AttemptFacts[]): ResumeSteps {
  return new Map(
    attempts.flatMap((each) => (each.resume_step === null ? [] : [[each.number, each.resume_step] as const])),
  );
}

export function epochSource(
  { progress }: Pick<Schemas["JobDetails"], "progress">,
  names: readonly string[],
): EpochSource {
  const metric = epochMetric(names);
  if (metric !== null) return { metric };
  const { steps, epochs } = progress;
  return steps && epochs ? { perStep: epochs / steps } : null;
}

function buildLines(data: SeriesData, chart: AttemptChartOptions): ChartLine[] {
  const { view, attempts } = chart;
  const options = toLineOptions(chart, countPoints(data));
  const resumes = resumeSteps(attempts);
  return [...data.attempts]
    .filter(([attempt]) => !view.hidden.has(String(attempt)))
    .sort(([a], [b]) => a - b)
    .map(([attempt, columns]) => ({
      id: String(attempt),
      label: attemptLabel(attempt, attempts),
      color: attemptColor(attempt),
      dash: [],
      stretches: attemptStretches(columns, lastKeptStep(attempt, resumes), options),
    }));
}

export function attemptLabel(attempt: number, attempts: readonly AttemptFacts[]): string {
  const backend = attempts.find((each) => each.number === attempt)?.backend;
  return backend === undefined ? `attempt ${attempt}` : `attempt ${attempt}, ${backend}`;
}

/** The steps to load for a zoomed axis, a little more than is shown, so that lines reach the edges. */
export function toStepRange(
  { axis }: Pick<ChartView, "axis">,
  lines: readonly ChartLine[],
  [from, to]: readonly [number, number],
): StepRange | null {
  if (axis !== "step") {
    const steps = stepsBetween(lines, from, to);
    const newest = lines.at(-1)?.stretches.at(-1)?.xs.at(-1) ?? Infinity;
    // The end of a running job moves; a range without an end does not have to be loaded again.
    return steps !== null && to >= newest ? { from: steps.from, to: Number.MAX_SAFE_INTEGER } : steps;
  }
  const more = Math.max(1, (to - from) * 0.02);
  return { from: Math.floor(from - more), to: Math.ceil(to + more) };
}

function describe({ store, name, view }: AttemptChartOptions, lines: number): string {
  const summary = store.summaries.get(name);
  if (summary === undefined) return `${name}, no points yet`;
  const { count, min, max, last } = summary;
  const numbers = `newest value ${formatValue(last)}, lowest ${formatValue(min)}, highest ${formatValue(max)}`;
  return `${name} against ${view.axis}, ${plural(lines, "attempt")}, ${plural(count, "point")}, ${numbers}`;
}

function describePoint(options: AttemptChartOptions, { line, stretch, index, x }: HoveredPoint) {
  const { view, name } = options;
  const value = stretch.values[index]!;
  const text = formatValue(value);
  const rows: [string, string][] = [["step", formatCount(stretch.steps[index]!)]];
  if (view.axis === "epoch") rows.push(["epoch", formatValue(x)]);
  rows.push([name.split("/").at(-1)!, text]);
  if (view.smoothing > 0) rows.push(["smoothed", formatValue(stretch.smoothed[index]!)]);
  if (stretch.redone) rows.push(["", "computed again later"]);
  const at = stretch.times[index]! * 1000;
  const today = new Date(at).toDateString() === new Date().toDateString();
  rows.push(["at", today ? clockTime(at, true) : shortTime(at, Date.now())]);
  return { title: line.label, color: line.color, value: text, rows };
}
