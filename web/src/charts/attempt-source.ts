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
} from "@/charts/lines";
import type { MetricsStore, SeriesData, StepRange } from "@/charts/metrics-store";
import { formatCount, formatValue, plural } from "@/lib/format";
import { absoluteTime, clockTime } from "@/lib/time";

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
  const lineOptions = toLineOptions(options);
  const whole = store.read(name);
  const wholeLines = buildLines(whole, options, lineOptions);
  const range = view.zoom === null ? null : toStepRange(view, wholeLines, view.zoom);
  const data = range === null ? whole : store.readRange(name, range, ZOOM_POINTS);
  const lines = data === whole ? wholeLines : buildLines(data, options, lineOptions);
  const summary = store.summaries.get(name);
  return {
    model: {
      lines,
      axis: view.axis,
      logScale: view.logScale && !(summary !== undefined && summary.min <= 0),
      smoothing: view.smoothing > 0,
      zoom: view.zoom,
      changes: wholeLines
        .slice(1)
        .map(lineStart)
        .filter((start) => start !== null),
    },
    state: whole.state,
    newest: summary === undefined ? null : { value: summary.last, color: attemptColor(summary.attempt) },
    description: describe(options, lines.length),
  };
}

function toLineOptions({ view, epochs, store }: AttemptChartOptions): LineOptions {
  const { axis, smoothing } = view;
  if (axis !== "epoch" || epochs === null) return { axis, smoothing, epochOf: null };
  if ("perStep" in epochs) return { axis, smoothing, epochOf: (step) => step * epochs.perStep };
  const reported = [...store.read(epochs.metric).attempts.values()];
  const steps = reported.flatMap((columns) => columns.steps);
  const values = reported.flatMap((columns) => columns.values);
  return { axis, smoothing, epochOf: epochScale(steps, values) };
}

function buildLines(
  data: SeriesData,
  { view, attempts }: AttemptChartOptions,
  options: LineOptions,
): ChartLine[] {
  const resumes = new Map(
    attempts.flatMap((each) => (each.resume_step === null ? [] : [[each.number, each.resume_step] as const])),
  );
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
function toStepRange(
  { axis }: Pick<ChartView, "axis">,
  lines: readonly ChartLine[],
  [from, to]: readonly [number, number],
): StepRange | null {
  if (axis !== "step") return stepsBetween(lines, from, to);
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
  const text = Number.isFinite(value) ? formatValue(value) : String(value);
  const rows: [string, string][] = [["step", formatCount(stretch.steps[index]!)]];
  if (view.axis === "epoch") rows.push(["epoch", formatValue(x)]);
  rows.push([name.split("/").at(-1)!, text]);
  if (view.smoothing > 0) rows.push(["smoothed", formatValue(stretch.smoothed[index]!)]);
  if (stretch.redone) rows.push(["", "computed again later"]);
  const at = stretch.times[index]! * 1000;
  const today = new Date(at).toDateString() === new Date().toDateString();
  rows.push(["at", today ? clockTime(at, true) : absoluteTime(at)]);
  return { title: line.label, color: line.color, value: text, rows };
}
