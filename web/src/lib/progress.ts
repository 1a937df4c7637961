import type { Schemas } from "@/api/client";

/** The completed fraction of a job: as reported, or from its steps or epochs; null if nothing shows it. */
export function progressFraction(progress: Schemas["JobProgress"]): number | null {
  const { fraction, step, steps, epoch, epochs } = progress;
  if (fraction !== null) return fraction;
  return ratio(step, steps) ?? ratio(epoch, epochs);
}

function ratio(done: number | null, total: number | null): number | null {
  return done === null || total === null || total <= 0 ? null : Math.min(1, Math.max(0, done / total));
}
