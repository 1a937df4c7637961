/** Turn the stored points of attempts or runs into the lines of a chart. */

import { ascendingIndices, firstIndexFrom } from "@/charts/align";
import { takeColumns, type Columns } from "@/charts/columns";
import { smooth } from "@/charts/smoothing";

export type HorizontalAxis = "step" | "epoch" | "time";

/** A part of a line that is drawn in one style. Positions ascend. */
export interface Stretch {
  xs: number[];
  /** Values as reported; NaN and infinities included. */
  values: number[];
  smoothed: number[];
  steps: number[];
  times: number[];
  /** The points come after the checkpoint from which the next attempt resumed: they were computed again. */
  redone: boolean;
}

/** The line of an attempt or a run. */
export interface ChartLine {
  id: string;
  label: string;
  /** A colour token such as `--c1`. */
  color: string;
  dash: readonly number[];
  stretches: Stretch[];
}

export const SERIES_COLORS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];
const RUN_DASHES: readonly (readonly number[])[] = [
  [4, 2],
  [2, 2],
  [6, 2, 2, 2],
];
const RUNS_WITHOUT_DASHES = 4;

export function attemptColor(attempt: number): string {
  return SERIES_COLORS[(Math.max(1, attempt) - 1) % SERIES_COLORS.length]!;
}

/** The look of the n-th run: six colours; from the fifth run on also dashes. */
export function runLook(index: number): { color: string; dash: readonly number[] } {
  const color = SERIES_COLORS[index % SERIES_COLORS.length]!;
  const beyond = index - RUNS_WITHOUT_DASHES;
  return {
    color,
    dash: beyond < 0 ? [] : RUN_DASHES[Math.floor(beyond / SERIES_COLORS.length) % RUN_DASHES.length]!,
  };
}

export interface AttemptPoints {
  attempt: number;
  columns: Columns;
}

/** The step of the checkpoint from which an attempt resumed, by the number of the attempt. */
export type ResumeSteps = ReadonlyMap<number, number>;

/**
 * The last step of an attempt that later attempts did not compute again: the lowest checkpoint from which one of them
 * resumed. Infinity if none resumed before the attempt's end.
 */
export function lastKeptStep(attempt: number, resumeSteps: ResumeSteps): number {
  let kept = Infinity;
  for (const [later, step] of resumeSteps) if (later > attempt) kept = Math.min(kept, step);
  return kept;
}

/** "elapsed": seconds since the start of the run, for runs that began at different times. */
export type PlotAxis = HorizontalAxis | "elapsed";

export interface LineOptions {
  axis: PlotAxis;
  smoothing: number;
  /** Convert a step to an epoch; needed for the axis "epoch". */
  epochOf: ((step: number) => number) | null;
  /** Start of the run in Unix seconds; needed for the axis "elapsed". */
  startedAt?: number;
}

function positions(columns: Columns, { axis, epochOf, startedAt = 0 }: LineOptions): number[] {
  if (axis === "time") return columns.times;
  if (axis === "elapsed") return columns.times.map((time) => time - startedAt);
  if (axis === "epoch" && epochOf !== null) return columns.steps.map(epochOf);
  return columns.steps;
}

/** The stretches of one attempt: the points that count, and those that were computed again, if any. */
export function attemptStretches(columns: Columns, lastKept: number, options: LineOptions): Stretch[] {
  const xs = positions(columns, options);
  const order = ascendingIndices(xs);
  const sorted = takeColumns(columns, order);
  const whole: Stretch = {
    xs: order.map((index) => xs[index]!),
    values: sorted.values,
    smoothed: smooth(sorted.values, options.smoothing),
    steps: sorted.steps,
    times: sorted.times,
    redone: false,
  };
  const cut = sorted.steps.findIndex((step) => step > lastKept);
  if (cut < 0) return whole.xs.length > 0 ? [whole] : [];
  // The dashed part begins at the last kept point, so that the line is not interrupted.
  const kept = sliceStretch(whole, 0, cut, false);
  const redone = sliceStretch(whole, Math.max(0, cut - 1), whole.xs.length, true);
  return cut > 0 ? [kept, redone] : [redone];
}

function sliceStretch(stretch: Stretch, start: number, end: number, redone: boolean): Stretch {
  return {
    xs: stretch.xs.slice(start, end),
    values: stretch.values.slice(start, end),
    smoothed: stretch.smoothed.slice(start, end),
    steps: stretch.steps.slice(start, end),
    times: stretch.times.slice(start, end),
    redone,
  };
}

/** The position at which a line begins, or null without points. */
export function lineStart(line: ChartLine): number | null {
  return line.stretches[0]?.xs[0] ?? null;
}

/** A function from step to epoch that interpolates between reported pairs, and continues at the mean rate after them. */
export function epochScale(
  steps: readonly number[],
  epochs: readonly number[],
): ((step: number) => number) | null {
  const order = ascendingIndices(steps).filter((index) => Number.isFinite(epochs[index]));
  if (order.length < 2) return null;
  const xs = order.map((index) => steps[index]!);
  const ys = order.map((index) => epochs[index]!);
  return (step) => {
    const high = Math.min(xs.length - 1, Math.max(1, firstIndexFrom(xs, step)));
    const rate = (ys[high]! - ys[high - 1]!) / (xs[high]! - xs[high - 1]!);
    return ys[high - 1]! + (step - xs[high - 1]!) * rate;
  };
}
