/** Predictions beside results, on an axis from half to double. Pure functions. */

import type { Schemas } from "@/api/client";

export type JudgedJob = Schemas["JudgedJob"];

export interface RatioRow {
  id: string;
  name: string;
  predicted: number;
  actual: number;
  /** Actual divided by predicted. */
  ratio: number;
  low: number;
  high: number;
  inside: boolean;
}

/** The jobs whose cost or time was predicted before they ran. */
export function ratioRows(jobs: readonly JudgedJob[], what: "cost" | "time"): RatioRow[] {
  return jobs.flatMap((job) => {
    const said = job.predicted;
    if (said === null) return [];
    const [predicted, low, high, actual] =
      what === "cost"
        ? [said.cost_microusd, said.cost_low_microusd, said.cost_high_microusd, job.actual.cost_microusd]
        : [said.wall_s, said.wall_low_s, said.wall_high_s, job.actual.seconds];
    if (!(predicted > 0) || !(actual > 0)) return [];
    return [
      {
        id: job.id,
        name: job.name,
        predicted,
        actual,
        ratio: actual / predicted,
        low: low / predicted,
        high: high / predicted,
        inside: low <= actual && actual <= high,
      },
    ];
  });
}

/** The position of a ratio on an axis from half (0) to double (1); 0.5 is as predicted. */
export function ratioPosition(ratio: number): number {
  if (!(ratio > 0)) return 0;
  return Math.min(1, Math.max(0, 0.5 + Math.log2(ratio) / 2));
}

/** 1.46 as "+46 %", 0.98 as "−2 %". */
export function formatOff(ratio: number): string {
  const percent = Math.round((ratio - 1) * 100);
  const sign = percent > 0 ? "+" : percent < 0 ? "−" : "±";
  return `${sign}${Math.abs(percent)}\u00a0%`;
}
