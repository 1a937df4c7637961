/** The numbers of the five figures at the top of the job page. */

import type { Schemas } from "@/api/client";
import { progressFraction } from "@/lib/progress";
import { isEnded } from "@/ui/Status";
import type { RemainingTime } from "@/views/job/timeline/model";

type Job = Schemas["JobDetails"];

const SECOND = 1000;

/** The prediction of a job whose script may still run: not after its end, and not while its machine is held. */
function currentPrediction(job: Job): Job["prediction"] {
  return isEnded(job.status) || job.phase === "held" ? null : job.prediction;
}

/** The predicted rest of a job at `now`; null without a prediction, and after the end of its script. */
export function remainingTime(job: Job, now: number): RemainingTime | null {
  const prediction = currentPrediction(job);
  if (prediction === null) return null;
  const start = job.attempts[0]?.launching_at;
  const elapsed = start === undefined ? 0 : Math.max(0, now - Date.parse(start)) / SECOND;
  const left = (seconds: number) => Math.max(0, seconds - elapsed);
  return {
    seconds: left(prediction.wall_s),
    low: left(prediction.wall_low_s),
    high: left(prediction.wall_high_s),
  };
}

export interface CostFigure {
  spent: number;
  hourly: number;
  budget: number | null;
  expected: { value: number; low: number; high: number } | null;
  /** The right end of the bar. */
  scale: number;
}

/** Cost so far and the predicted total. */
export function costFigure(job: Job): CostFigure {
  const spent = job.cost_microusd;
  const budget = job.max_cost_microusd;
  const isRunning = !isEnded(job.status) && job.attempts.some((each) => each.released_at === null);
  const hourly = isRunning ? (job.place?.price_microusd_per_hour ?? 0) : 0;
  const prediction = currentPrediction(job);
  const expected =
    prediction === null
      ? null
      : {
          value: Math.max(spent, prediction.cost_microusd),
          low: Math.max(spent, prediction.cost_low_microusd),
          high: Math.max(spent, prediction.cost_high_microusd),
        };
  const scale = budget ?? Math.max(spent, expected?.high ?? 0, 1);
  return { spent, hourly, budget, expected, scale };
}

export interface ProgressPart {
  from: number;
  to: number;
  attempt: number;
}

/** The parts of the progress bar: one for each attempt that trained, cut where the machine changed. */
export function progressParts(job: Job): ProgressPart[] {
  const trained = job.attempts.filter((each) => each.training_at !== null);
  const starts = trainingStarts(job, trained);
  const parts: ProgressPart[] = [];
  let end = progressFraction(job.progress) ?? 0;
  // From the newest to the first: work that a later attempt repeated belongs to the later one.
  for (let index = starts.length - 1; index >= 0 && end > 0; index -= 1) {
    const from = Math.min(starts[index]!, end);
    if (end > from) parts.unshift({ from, to: end, attempt: trained[index]!.number });
    end = from;
  }
  return parts;
}

/** The fraction of the work at which each attempt started. */
function trainingStarts(job: Job, trained: readonly Schemas["AttemptDetails"][]): number[] {
  const { attempt_marks: marks } = job;
  const { steps } = job.progress;
  if (marks.length === trained.length - 1) return [0, ...marks];
  return trained.map(({ resume_step }, index) =>
    index === 0 || resume_step === null || !steps ? 0 : resume_step / steps,
  );
}

/** Steps per second of the newest attempt; null before it has made steps. */
export function pace(job: Job, now: number): number | null {
  const newest = job.attempts.at(-1);
  const step = job.progress.step;
  if (newest === undefined || newest.training_at === null || typeof step !== "number") return null;
  const until = newest.ended_at === null ? now : Date.parse(newest.ended_at);
  const seconds = (until - Date.parse(newest.training_at)) / SECOND;
  const steps = step - (newest.resume_step ?? 0);
  return seconds > 1 && steps > 0 ? steps / seconds : null;
}
