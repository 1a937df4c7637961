/** Predictions on a ratio axis: the actual value divided by the predicted one, on a logarithmic scale. */

import type { Schemas } from "@/api/client";

export type What = "cost" | "time";
export type Stage = "before" | "first-steps";

export interface RatioPoint {
  id: string;
  name: string;
  predicted: number;
  actual: number;
  /** Ends of the interval and the actual value, divided by the predicted value. */
  low: number;
  high: number;
  ratio: number;
  inside: boolean;
}

/** The points of the jobs that have such a prediction. Jobs without a cost have no ratio of costs. */
export function ratioPoints(jobs: readonly Schemas["JudgedJob"][], what: What, stage: Stage): RatioPoint[] {
  return jobs.flatMap((job) => {
    const prediction = stage === "before" ? job.predicted : job.calibrated;
    if (prediction === null) return [];
    const [predicted, low, high, actual] =
      what === "cost"
        ? [
            prediction.cost_microusd,
            prediction.cost_low_microusd,
            prediction.cost_high_microusd,
            job.actual.cost_microusd,
          ]
        : [prediction.wall_s, prediction.wall_low_s, prediction.wall_high_s, job.actual.seconds];
    if (predicted <= 0 || actual <= 0) return [];
    const inside = low <= actual && actual <= high;
    const shares = { low: low / predicted, high: high / predicted, ratio: actual / predicted };
    return [{ id: job.id, name: job.name, predicted, actual, inside, ...shares }];
  });
}

const SPANS = [
  { span: 2, low: "half", high: "double" },
  { span: 4, low: "a quarter", high: "4 times" },
  { span: 10, low: "a tenth", high: "10 times" },
] as const;

export interface RatioAxis {
  span: number;
  low: string;
  high: string;
}

/** The smallest axis that has nine of ten points; the others are drawn at its ends. */
export function ratioAxis(points: readonly RatioPoint[]): RatioAxis {
  const distances = points.map((point) => Math.max(point.ratio, 1 / point.ratio)).sort((a, b) => a - b);
  const most = distances[Math.max(0, Math.ceil(distances.length * 0.9) - 1)] ?? 1;
  return SPANS.find((each) => most <= each.span) ?? SPANS.at(-1)!;
}

/** The place of a ratio on an axis from 1/span (0) to span (1). */
export function ratioPlace(ratio: number, span: number): number {
  const place = 0.5 + Math.log(Math.max(ratio, 1e-9)) / Math.log(span) / 2;
  return Math.min(1, Math.max(0, place));
}

/** "+2 %", "−9 %": how far the actual value is from the prediction. */
export function offBy(ratio: number): string {
  const percent = Math.round((ratio - 1) * 100);
  if (percent === 0) return "0\u00a0%";
  return `${percent > 0 ? "+" : "−"}${Math.abs(percent)}\u00a0%`;
}
