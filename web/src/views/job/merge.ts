/** Merge what arrives over the connection into what the page knows. */

import type { Schemas } from "@/api/client";
import type { LiveMessage } from "@/live/connection";
import { isEnded } from "@/ui/Status";

export type Job = Schemas["JobDetails"];
export type JobEvent = Schemas["JobEvent"];

export interface EventLog {
  /** Newest first. */
  events: JobEvent[];
  total: number;
  /** The position after which the connection continues. */
  after: number;
}

/** Add events that arrived to those that are known. Each event is kept once. */
export function withEvents(known: EventLog, arrived: readonly JobEvent[]): EventLog {
  const fresh = arrived.filter((event) => event.position > known.after);
  if (fresh.length === 0) return known;
  return {
    events: [...fresh.toReversed(), ...known.events],
    total: known.total + fresh.length,
    after: fresh.at(-1)!.position,
  };
}

/** The job with the progress of a message. A message of an older attempt changes nothing. */
export function withProgress(job: Job, message: Extract<LiveMessage, { kind: "progress" }>): Job {
  if (message.attempt !== job.attempt || isEnded(job.status)) return job;
  const progress = { ...job.progress, ...message.progress };
  return { ...job, progress, telemetry: message.telemetry };
}

/** Whether only progress and cost differ, which arrive several times a second. The epoch axis needs both counts. */
export function isSameRun(before: Job, after: Job): boolean {
  return (
    before.id === after.id &&
    before.status === after.status &&
    before.attempts === after.attempts &&
    before.progress.steps === after.progress.steps &&
    before.progress.epochs === after.progress.epochs
  );
}
