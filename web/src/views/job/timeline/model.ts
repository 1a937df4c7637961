/** Where the attempts of a job lie on its timeline. All positions are fractions of the shown time. */

import type { Schemas } from "@/api/client";
import { clockTime } from "@/lib/time";

type Job = Schemas["JobDetails"];
export type Attempt = Schemas["AttemptDetails"];

export interface Span {
  from: number;
  to: number;
}

export interface Lane {
  attempt: Attempt;
  starting: Span | null;
  training: Span | null;
  /** Training after the last checkpoint, which was lost. */
  lost: Span | null;
  /** The machine is held for inspection. */
  held: Span | null;
  checkpoints: number[];
  /** From now to the expected end, with the interval of the end. */
  expected: (Span & { low: number; high: number; at: number }) | null;
  /** Where the text about the end is, and on which side of it there is room. */
  note: { at: number; side: "left" | "right" } | null;
  seconds: number;
}

export interface Tick {
  at: number;
  label: string;
}

export interface Timeline {
  ticks: Tick[];
  /** The labels of the ticks contain seconds. */
  showsSeconds: boolean;
  now: number | null;
  lanes: Lane[];
  better: (Span & { at: number }) | null;
}

/** A line from the work that was kept to the attempt that continued it. `lane` is the upper lane. */
export type Join = Span & { lane: number };

export interface RemainingTime {
  seconds: number;
  low: number;
  high: number;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((count) => count * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE),
  ...[1, 2, 3, 6, 12].map((count) => count * HOUR),
  ...[1, 2, 7, 14, 30, 60, 120].map((count) => count * DAY),
];
const MAX_TICKS = 9;
const MIN_SPAN_MS = 2 * SECOND;
/** Room at the right, as a fraction: little, or enough for the text after an expected end. */
const MARGIN = 0.04;
const TEXT_MARGIN = 0.2;
const MIN_LOSS_S = 1;
const NOTE_ROOM = 0.3;

/** The time of a migration to a better machine before it trains, as a fraction of the rest. */
const MOVE_MS = 3 * MINUTE;

export function buildTimeline(job: Job, remaining: RemainingTime | null, now: number): Timeline {
  const starts = job.attempts.map((each) => Date.parse(each.launching_at));
  const start = starts.length > 0 ? Math.min(...starts) : now;
  const live = job.ended_at === null;
  const end = Math.max(start + MIN_SPAN_MS, ...endTimes(job, remaining, now));
  const span = (end - start) * (1 + (remaining === null ? MARGIN : TEXT_MARGIN));
  const at = (time: number) => (time - start) / span;
  const lanes = job.attempts.map((attempt) => buildLane(attempt, remaining, now, at));
  return {
    ticks: buildTicks(start, span),
    showsSeconds: tickStep(span) < MINUTE,
    now: live ? at(now) : null,
    lanes,
    better: live ? betterSpan(job, remaining, now, at) : null,
  };
}

function endTimes(job: Job, remaining: RemainingTime | null, now: number): number[] {
  if (job.ended_at !== null) return [Date.parse(job.ended_at)];
  return [now, remaining === null ? now : now + remaining.high * SECOND];
}

function buildLane(
  attempt: Attempt,
  remaining: RemainingTime | null,
  now: number,
  at: (time: number) => number,
): Lane {
  const launching = Date.parse(attempt.launching_at);
  const training = parseTime(attempt.training_at);
  const ended = parseTime(attempt.ended_at);
  const until = ended ?? now;
  const begun = training ?? until;
  const isLoss = training !== null && attempt.work_lost_s >= MIN_LOSS_S;
  const lostMs = isLoss ? Math.min(attempt.work_lost_s * SECOND, until - training) : 0;
  const isOver = ended !== null;
  const held = parseTime(attempt.held_until) !== null ? { from: at(until), to: at(now) } : null;
  return {
    attempt,
    starting: begun > launching ? { from: at(launching), to: at(begun) } : null,
    training: training === null ? null : { from: at(training), to: at(until) },
    lost: lostMs > 0 ? { from: at(until - lostMs), to: at(until) } : null,
    held,
    checkpoints: attempt.checkpoints.map((each) => at(Date.parse(each.saved_at))),
    expected: isOver || remaining === null ? null : expectedSpan(remaining, now, at),
    note: isOver ? notePlace(at(launching), held?.to ?? at(until)) : null,
    seconds: (until - launching) / SECOND,
  };
}

function expectedSpan(remaining: RemainingTime, now: number, at: (time: number) => number): Lane["expected"] {
  const end = now + remaining.seconds * SECOND;
  return {
    from: at(now),
    to: at(end),
    low: at(now + remaining.low * SECOND),
    high: at(now + remaining.high * SECOND),
    at: end,
  };
}

/** The note is at the right of the bar, or at its left if there is more room. */
function notePlace(from: number, to: number): Lane["note"] {
  const roomRight = 1 - to;
  return roomRight >= NOTE_ROOM || roomRight >= from ? { at: to, side: "right" } : { at: from, side: "left" };
}

const MAX_LANES = 8;
const KEPT_LANES = 6;

/** The lanes that are shown at first. Of many, these are the attempts that trained, and the newest one. */
export function mainLanes(lanes: readonly Lane[]): readonly Lane[] {
  if (lanes.length <= MAX_LANES) return lanes;
  const main = lanes.filter((lane) => lane.training !== null || lane === lanes.at(-1));
  return main.length <= MAX_LANES ? main : main.slice(-KEPT_LANES);
}

export function buildJoins(lanes: readonly Lane[]): Join[] {
  return lanes.slice(1).flatMap((lane, index) => {
    const before = lanes[index]!;
    const kept = before.lost?.from ?? before.training?.to ?? before.starting?.to;
    const next = lane.training?.from ?? lane.starting?.from;
    if (kept === undefined || next === undefined || lane.attempt.resume_step === null) return [];
    return [{ from: Math.min(kept, next), to: next, lane: index }];
  });
}

function betterSpan(
  job: Job,
  remaining: RemainingTime | null,
  now: number,
  at: (time: number) => number,
): Timeline["better"] {
  if (job.better === null || remaining === null) return null;
  const end = now + Math.max(0, remaining.seconds - job.better.sooner_s) * SECOND;
  return { from: at(Math.min(now + MOVE_MS, end)), to: at(end), at: end };
}

function tickStep(span: number): number {
  return STEPS.find((each) => span / each <= MAX_TICKS - 1) ?? span;
}

/** Ticks at round local times, at most nine. */
export function buildTicks(start: number, span: number): Tick[] {
  const step = tickStep(span);
  const offset = new Date(start).getTimezoneOffset() * MINUTE;
  const first = Math.ceil((start - offset) / step) * step + offset;
  const ticks: Tick[] = [];
  for (let time = first; time <= start + span; time += step) {
    ticks.push({ at: (time - start) / span, label: tickLabel(time, step) });
  }
  return ticks;
}

const dayOnly = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

function tickLabel(time: number, step: number): string {
  if (step >= DAY) return dayOnly.format(time);
  return clockTime(time, step < MINUTE);
}

function parseTime(text: string | null): number | null {
  return text === null ? null : Date.parse(text);
}

/** Seconds between the end of training on one machine and the start on the next. `until`: now, while it waits. */
export function secondsBetween(attempts: readonly Attempt[], until: number | null): number {
  const trained = attempts.filter((each) => each.training_at !== null);
  return trained.reduce((total, attempt, index) => {
    const ended = parseTime(attempt.ended_at);
    const resumed = parseTime(trained[index + 1]?.training_at ?? null) ?? until;
    return ended === null || resumed === null ? total : total + Math.max(0, resumed - ended) / SECOND;
  }, 0);
}
