/**
 * The metrics of one job: summaries of all, points of those that a chart shows.
 *
 * Points are loaded by name when a chart first needs them. Live points are added to loaded series; every point is taken
 * once, because the server says with each answer up to which point of the attempt it goes.
 */

import { asProblem, type Schemas } from "@/api/client";
import {
  appendPoint,
  emptyColumns,
  parseColumns,
  parseValue,
  numberedPoints,
  type Columns,
  type NumberedPoint,
  type PointsMessage,
} from "@/charts/columns";
import { isTemporary } from "@/live/connection";

export interface MetricSummary {
  name: string;
  count: number;
  min: number;
  max: number;
  last: number;
  lastStep: number;
  /** The attempt of the last value. */
  attempt: number;
}

/** Points of one metric: by attempt its columns, and the cursor up to which they go. */
export interface SeriesData {
  attempts: Map<number, Columns>;
  cursors: Map<number, number>;
  state: "loading" | "ready" | "failed";
  /** The steps that were requested, when not all. */
  range: StepRange | null;
  /** Increases when points are added. */
  version: number;
}

export interface StepRange {
  from: number;
  to: number;
}

export interface HistoryRequest {
  names: string[];
  points: number;
  range: StepRange | null;
}

export interface MetricsLoader {
  overview: () => Promise<Schemas["MetricsOverview"]>;
  history: (request: HistoryRequest) => Promise<Schemas["MetricsHistory"]>;
}

const NAMES_PER_REQUEST = 12;
const POINTS_PER_CHART = 1000;
const FIRST_RETRY_MS = 2000;
const LAST_RETRY_MS = 60_000;
/** Messages that are kept for series whose points are still being loaded. */
const MAX_WAITING_MESSAGES = 400;

interface NumberedMessage {
  attempt: number;
  points: Map<string, NumberedPoint[]>;
}

type Listener = () => void;

export class MetricsStore {
  readonly summaries = new Map<string, MetricSummary>();
  private readonly series = new Map<string, SeriesData>();
  private readonly details = new Map<string, SeriesData>();
  private readonly listeners = new Map<string, Set<Listener>>();
  private readonly wanted = new Set<string>();
  private waiting: NumberedMessage[] = [];
  private requests = 0;
  /** Requests in a row that failed. */
  private failures = 0;
  private closed = false;
  /** Increases when metrics are added; charts have their own listeners. */
  namesVersion = 0;

  constructor(
    private readonly loader: MetricsLoader,
    private readonly defer: (run: () => void, ms: number) => void = (run, ms) => void setTimeout(run, ms),
  ) {}

  /** Load the summaries. Returns the cursor from which live points follow. */
  async loadOverview(): Promise<{ attempt: number; point: number }> {
    const overview = await this.loader.overview();
    for (const each of overview.metrics) {
      this.summaries.set(each.name, {
        name: each.name,
        count: each.count,
        min: parseValue(each.min),
        max: parseValue(each.max),
        last: parseValue(each.last),
        lastStep: each.last_step,
        attempt: each.attempts.at(-1) ?? 1,
      });
    }
    this.namesVersion += 1;
    this.notify("");
    return { attempt: overview.attempt, point: overview.cursor };
  }

  /** Call `listener` when points of the metric change; with the name "", when metrics are added. */
  subscribe(name: string, listener: Listener): () => void {
    const known = this.listeners.get(name) ?? new Set();
    this.listeners.set(name, known.add(listener));
    return () => known.delete(listener);
  }

  /** The points of a metric; requests them when they are not loaded. */
  read(name: string): SeriesData {
    const known = this.series.get(name);
    if (known !== undefined) return known;
    const data = newSeries(null);
    this.series.set(name, data);
    this.wanted.add(name);
    if (this.wanted.size === 1) this.defer(() => void this.loadWanted(), 0);
    return data;
  }

  /**
   * The points of a range of steps in full resolution. While they load, and if they could not be loaded, these are the
   * points of all steps; the state says whether it failed.
   */
  readRange(name: string, range: StepRange, points: number): SeriesData {
    const known = this.details.get(name);
    const same = known?.range?.from === range.from && known.range.to === range.to;
    if (known === undefined || !same) {
      const data = newSeries(range);
      this.details.set(name, data);
      void this.load([name], points, range, [data]);
    }
    const current = this.details.get(name)!;
    if (current.state === "ready") return current;
    const whole = this.read(name);
    return current.state === "failed" ? { ...whole, state: "failed" } : whole;
  }

  forgetRanges(): void {
    this.details.clear();
  }

  /** Request again what could not be loaded. */
  retry(name: string): void {
    for (const collection of [this.series, this.details]) {
      if (collection.get(name)?.state === "failed") collection.delete(name);
    }
    this.read(name);
    this.notify(name);
  }

  /** Request again everything that could not be loaded. */
  retryFailed(): void {
    const all = [...this.series, ...this.details];
    for (const name of new Set(all.filter(([, data]) => data.state === "failed").map(([name]) => name)))
      this.retry(name);
  }

  /** Add live points. */
  addMessages(messages: readonly PointsMessage[]): void {
    const changed = new Set<string>();
    for (const { attempt, ...message } of messages) {
      const points = numberedPoints({ attempt, ...message });
      for (const [name, added] of points) {
        this.addToSummary(name, attempt, added);
        for (const collection of [this.series, this.details]) {
          const data = collection.get(name);
          if (data?.state === "ready" && addPoints(data, attempt, added)) changed.add(name);
        }
      }
      if (this.requests > 0 || this.wanted.size > 0) this.waiting.push({ attempt, points });
    }
    this.waiting.splice(0, Math.max(0, this.waiting.length - MAX_WAITING_MESSAGES));
    for (const name of changed) this.notify(name);
  }

  private addToSummary(name: string, attempt: number, points: readonly NumberedPoint[]): void {
    let known = this.summaries.get(name);
    if (known === undefined) {
      known = { name, count: 0, min: NaN, max: NaN, last: NaN, lastStep: 0, attempt };
      this.summaries.set(name, known);
      this.namesVersion += 1;
      this.notify("");
    }
    for (const { step, value } of points) {
      known.count += 1;
      known.last = value;
      known.lastStep = step;
      if (!(known.min <= value) && !Number.isNaN(value)) known.min = value;
      if (!(known.max >= value) && !Number.isNaN(value)) known.max = value;
    }
    known.attempt = attempt;
  }

  private async loadWanted(): Promise<void> {
    const names = [...this.wanted];
    this.wanted.clear();
    const parts: string[][] = [];
    for (let start = 0; start < names.length; start += NAMES_PER_REQUEST) {
      parts.push(names.slice(start, start + NAMES_PER_REQUEST));
    }
    await Promise.all(
      parts.map((part) =>
        this.load(
          part,
          POINTS_PER_CHART,
          null,
          part.map((name) => this.series.get(name)!),
        ),
      ),
    );
  }

  private async load(
    names: string[],
    points: number,
    range: StepRange | null,
    targets: SeriesData[],
  ): Promise<void> {
    this.requests += 1;
    try {
      const history = await this.loader.history({ names, points, range });
      names.forEach((name, index) => fill(targets[index]!, name, history));
      for (const { attempt, points: added } of this.waiting) {
        names.forEach((name, index) => addPoints(targets[index]!, attempt, added.get(name) ?? []));
      }
      this.failures = 0;
    } catch (error) {
      for (const target of targets) target.state = "failed";
      if (isTemporary(asProblem(error).body)) this.retryLater(names);
    } finally {
      this.requests -= 1;
      if (this.requests === 0 && this.wanted.size === 0) this.waiting = [];
    }
    for (const name of names) this.notify(name);
  }

  /** Request points again that could not be loaded for now, e.g. because the server is restarted. */
  private retryLater(names: readonly string[]): void {
    const pause = Math.min(FIRST_RETRY_MS * 2 ** this.failures, LAST_RETRY_MS);
    this.failures += 1;
    this.defer(() => {
      if (!this.closed) for (const name of names) this.retry(name);
    }, pause);
  }

  /** Load nothing again. */
  close(): void {
    this.closed = true;
  }

  private notify(name: string): void {
    for (const listener of this.listeners.get(name) ?? []) listener();
  }
}

function newSeries(range: StepRange | null): SeriesData {
  return { attempts: new Map(), cursors: new Map(), state: "loading", range, version: 0 };
}

function fill(target: SeriesData, name: string, history: Schemas["MetricsHistory"]): void {
  for (const attempt of history.attempts) {
    target.cursors.set(attempt.attempt, attempt.cursor);
    const sent = attempt.series.find((each) => each.name === name);
    if (sent !== undefined) target.attempts.set(attempt.attempt, parseColumns(sent));
  }
  target.state = "ready";
  target.version += 1;
}

/** Add the points that are newer than the cursor of the series. Returns whether there were any. */
function addPoints(data: SeriesData, attempt: number, points: readonly NumberedPoint[]): boolean {
  let cursor = data.cursors.get(attempt) ?? 0;
  let added = false;
  for (const { number, step, time, value } of points) {
    if (number <= cursor) continue;
    cursor = number;
    if (!contains(data.range, step)) continue;
    let columns = data.attempts.get(attempt);
    if (columns === undefined) data.attempts.set(attempt, (columns = emptyColumns()));
    appendPoint(columns, step, time, value);
    added = true;
  }
  data.cursors.set(attempt, cursor);
  if (added) data.version += 1;
  return added;
}

function contains(range: StepRange | null, step: number): boolean {
  return range === null || (step >= range.from && step <= range.to);
}
