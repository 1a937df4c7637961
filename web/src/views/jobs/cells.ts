/** The texts of a row. Each cell has a value and, on a second line, its context. */

import { formatCount, formatDuration, formatInterval, formatMoney, plural } from "@/lib/format";
import { clockTime, roundedAge } from "@/lib/time";
import { isEnded } from "@/ui/Status";
import type { JobSummary } from "@/views/jobs/store";

const SHORT_NAME = 11;
const STARTING = new Set(["provisioning", "preparing"]);

export interface CellText {
  value: string;
  context: string;
  /** There is nothing to show yet; the value is a remark. */
  remark?: boolean;
  /** The value matters less than those of active jobs. */
  quiet?: boolean;
}

export function statusContext(job: JobSummary): string {
  if (job.damaged !== null && job.damaged !== undefined) return `cannot be read: ${job.damaged}`;
  if (job.status === "failed") return job.failure?.message ?? "";
  if (isEnded(job.status)) return interruptionsText(job);
  if (job.cancel_requested) return "cancel requested";
  if (job.phase === "held") return "script failed, machine kept";
  if (job.phase === "recovering") return job.reason || interruptionsText(job) || "finding a machine";
  if (job.attempt === 0 || job.phase === "waiting") return job.reason || queueText(job);
  if (job.phase === "provisioning" && job.reason !== "") return job.reason;
  const attempt = `attempt ${job.attempt}`;
  return job.interruptions === 0 ? attempt : `${attempt}, ${plural(job.interruptions, "interruption")}`;
}

function queueText(job: JobSummary): string {
  if (job.queue_position === null) return "";
  return job.queue_position === 1 ? "first in the queue" : `number ${job.queue_position} in the queue`;
}

function interruptionsText(job: JobSummary): string {
  if (job.interruptions === 0) return "";
  const lost = job.work_lost_s >= 1 ? `, ${formatDuration(job.work_lost_s)} lost` : "";
  return `${plural(job.interruptions, "interruption")}${lost}`;
}

/** The last part of a long name: "mAP50-95" of "metrics/mAP50-95". */
export function shortMetricName(name: string): string {
  return name.length <= SHORT_NAME ? name : (name.split("/").findLast((part) => part !== "") ?? name);
}

export function progressContext(job: JobSummary): string {
  const { step, steps, epoch, epochs, message } = job.progress;
  if (epoch !== null && epochs !== null) return `epoch ${number(epoch)} of ${number(epochs)}`;
  if (step !== null && steps !== null) return `step ${number(step)} of ${number(steps)}`;
  if (step !== null) return `step ${number(step)}`;
  if (epoch !== null) return `epoch ${number(epoch)}`;
  if (message) return message;
  if (STARTING.has(job.phase)) return "starting";
  return isEnded(job.status) ? "" : "no progress reported";
}

function number(value: number): string {
  return Number.isInteger(value) ? formatCount(value) : value.toFixed(1);
}

export function timeCell(job: JobSummary, now: number): CellText {
  if (isEnded(job.status)) {
    const ended = Date.parse(job.ended_at ?? job.updated_at);
    if (job.started_at === null) return { value: "never started", context: "", remark: true };
    return {
      quiet: true,
      value: `took ${formatDuration((ended - Date.parse(job.started_at)) / 1000)}`,
      context: "",
    };
  }
  if (job.phase === "held") return { value: "machine kept", context: "", remark: true };
  if (job.phase === "recovering") return { value: "finding a machine", context: "", remark: true };
  const due = job.deadline_at === null ? "" : `due ${dueTime(job.deadline_at, now)}`;
  if (job.remaining === null) return { value: due || "no estimate", context: "", remark: true };
  const { seconds, low_s, high_s } = job.remaining;
  const interval = formatInterval(formatDuration(low_s), formatDuration(high_s));
  if (seconds === 0) return { value: "any moment", context: due || `up to ${formatDuration(high_s)}` };
  return { value: `${formatDuration(seconds)} left`, context: due || interval };
}

const DAY_MS = 86_400_000;

function dueTime(at: string, now: number): string {
  const time = Date.parse(at);
  const days = Math.floor((time - new Date(now).setHours(0, 0, 0, 0)) / DAY_MS);
  if (days === 0) return clockTime(time);
  if (days === 1) return `${clockTime(time)} tomorrow`;
  return days < 0 ? `${roundedAge((now - time) / 1000)} ago` : `in ${formatDuration((time - now) / 1000)}`;
}

export function whereCell({ place }: JobSummary): CellText {
  if (place === null) return { value: "any", context: "", remark: true };
  const own = place.price_microusd_per_hour === 0;
  const host = own && place.backend !== "local" && place.name !== "" ? `/${place.name}` : "";
  const gpu = place.gpu === "" ? "GPU" : place.gpu;
  const gpus = place.gpus > 1 ? `${place.gpus} × ${gpu}` : gpu;
  const machine = place.gpus > 0 ? gpus : "CPU";
  return { value: place.backend + host, context: machine + (place.interruptible ? " spot" : "") };
}

export function costCell(job: JobSummary): CellText {
  const own = job.place !== null && job.place.price_microusd_per_hour === 0 && job.cost_microusd === 0;
  if (own) return { value: "own", context: "no charge", remark: true };
  const budget = job.max_cost_microusd === null ? "" : `of ${formatMoney(job.max_cost_microusd)}`;
  return { value: formatMoney(job.cost_microusd), context: budget };
}

export function ageText(submittedAt: string, now: number): string {
  return roundedAge(Math.max(0, (now - Date.parse(submittedAt)) / 1000));
}
