/** What a chart draws: styled columns, ranges and ticks. Computed without a canvas, so that it can be tested. */

import { alignLines, type AlignedTable } from "@/charts/align";
import { valueLimits } from "@/charts/limits";
import type { ChartLine, PlotAxis } from "@/charts/lines";
import { elapsedTicks, enclosingTicks, innerTicks, logTicks, timeTicks } from "@/charts/ticks";

export interface PlotModel {
  lines: readonly ChartLine[];
  axis: PlotAxis;
  logScale: boolean;
  smoothing: boolean;
  /** Show outliers too. */
  showAll: boolean;
  /** The chosen part of the horizontal axis. */
  zoom: readonly [number, number] | null;
  /** The horizontal axis without a zoom, if it is known while a part is shown. */
  whole?: readonly [number, number] | null;
  /** Positions at which the machine changed. */
  changes: readonly number[];
  /** The lines lie over each other (runs), so that reported values behind the smoothed ones must be fainter. */
  overlaid: boolean;
}

export interface StrokeStyle {
  color: string;
  width: number;
  alpha: number;
  dash: readonly number[];
}

/** A value that cannot be drawn at its height: NaN or infinite. */
export interface OddMark {
  x: number;
  color: string;
}

export interface PlotLayout {
  table: AlignedTable;
  strokes: StrokeStyle[];
  marks: OddMark[];
  xRange: [number, number];
  xTicks: number[];
  yRange: [number, number];
  yTicks: number[];
  clipped: boolean;
  points: number;
}

const LINE_WIDTH = 1.6;
const RAW_ALPHA = 0.28;
const OVERLAID_RAW_ALPHA = 0.1;
const REDONE = { width: 1.3, alpha: 0.75, dash: [2, 3] };
const Y_STEPS = 4;
const TALL_Y_STEPS = 6;
const TALL_PIXELS = 300;
const PIXELS_PER_X_TICK = 62;

export function layoutPlot(model: PlotModel, width: number, height = 0): PlotLayout {
  const strokes: StrokeStyle[] = [];
  const drawn: { xs: number[]; ys: (number | null)[] }[] = [];
  const marks: OddMark[] = [];
  const shown: number[] = [];
  let points = 0;
  const xRange = horizontalRange(model);
  const rawAlpha = model.overlaid && model.lines.length > 2 ? OVERLAID_RAW_ALPHA : RAW_ALPHA;
  const drawable = (value: number) =>
    Number.isFinite(value) && (!model.logScale || value > 0) ? value : null;
  for (const line of model.lines) {
    for (const { xs, values, smoothed, redone } of line.stretches) {
      points += xs.length;
      const ys = values.map(drawable);
      values.forEach((value, index) => {
        if (!Number.isFinite(value)) marks.push({ x: xs[index]!, color: line.color });
        else if (xs[index]! >= xRange[0] && xs[index]! <= xRange[1]) shown.push(value);
      });
      if (model.smoothing && !redone) {
        drawn.push({ xs, ys });
        strokes.push({ color: line.color, dash: [], width: 1, alpha: rawAlpha });
      }
      drawn.push({ xs, ys: model.smoothing && !redone ? smoothed.map(drawable) : ys });
      strokes.push(
        redone
          ? { color: line.color, ...REDONE }
          : { color: line.color, width: LINE_WIDTH, alpha: 1, dash: line.dash },
      );
    }
  }
  const vertical = verticalRange(shown, model, height > TALL_PIXELS ? TALL_Y_STEPS : Y_STEPS);
  return {
    table: alignLines(drawn),
    strokes,
    marks,
    points,
    xRange,
    xTicks: horizontalTicks(model.axis, xRange, width),
    ...vertical,
  };
}

/** The part of the horizontal axis that is shown: the zoom, or what the lines need. */
function horizontalRange({ lines, zoom }: Pick<PlotModel, "lines" | "zoom">): [number, number] {
  return zoom === null ? (lineRange(lines) ?? [0, 1]) : [zoom[0], zoom[1]];
}

/** The part of the horizontal axis that the lines need; null if they have no points. */
export function lineRange(lines: readonly ChartLine[]): [number, number] | null {
  let low = Infinity;
  let high = -Infinity;
  for (const line of lines) {
    for (const { xs } of line.stretches) {
      low = Math.min(low, xs[0] ?? Infinity);
      high = Math.max(high, xs.at(-1) ?? -Infinity);
    }
  }
  if (low > high) return null;
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

function horizontalTicks(axis: PlotAxis, [low, high]: [number, number], width: number): number[] {
  const target = Math.max(2, Math.floor(width / PIXELS_PER_X_TICK));
  if (axis === "time") return timeTicks(low, high, target);
  if (axis === "elapsed") return elapsedTicks(low, high, target);
  return innerTicks(low, high, target, axis === "step");
}

function verticalRange(
  shown: readonly number[],
  { logScale, showAll }: PlotModel,
  steps: number,
): Pick<PlotLayout, "yRange" | "yTicks" | "clipped"> {
  const limits = valueLimits(shown, { showAll, positive: logScale });
  if (limits === null)
    return { yRange: logScale ? [1, 10] : [0, 1], yTicks: logScale ? [1, 10] : [0, 1], clipped: false };
  const { low, high, clipped } = limits;
  const yTicks = logScale ? logTicks(low, high) : enclosingTicks(low, high, steps);
  return { yRange: [yTicks[0]!, yTicks.at(-1)!], yTicks, clipped };
}
