/** Points of one metric of one attempt, in columns, and the merge of live points into them. */

import { downsampleIndices } from "@/charts/downsample";

export interface Columns {
  steps: number[];
  /** Unix seconds; NaN if the stored time is no valid one. */
  times: number[];
  /** NaN and infinities are numbers here. */
  values: number[];
}

/** Beyond this number of points, live columns are reduced to the half. */
export const MAX_LIVE_POINTS = 4000;

export function emptyColumns(): Columns {
  return { steps: [], times: [], values: [] };
}

/** Read a value of the API: NaN and infinities are strings there. */
export function parseValue(value: number | string): number {
  return typeof value === "number" ? value : Number(value);
}

/** The highest time of a point that the server accepts, in Unix seconds. Older points can have any time. */
const MAX_TIME_S = 2 ** 40;

/** Read the time of a point. A time that is no valid date becomes NaN. */
function parseTime(time: number | string): number {
  const seconds = parseValue(time);
  return seconds >= 0 && seconds <= MAX_TIME_S ? seconds : NaN;
}

export function parseColumns(sent: {
  steps: number[];
  times: (number | string)[];
  values: (number | string)[];
}): Columns {
  return { steps: sent.steps, times: sent.times.map(parseTime), values: sent.values.map(parseValue) };
}

/** Add a point at the end. Long columns lose points, but not the extremes of any part. */
export function appendPoint(columns: Columns, step: number, time: number, value: number): void {
  columns.steps.push(step);
  columns.times.push(time);
  columns.values.push(value);
  if (columns.values.length > MAX_LIVE_POINTS) {
    const kept = takeColumns(columns, downsampleIndices(columns.values, MAX_LIVE_POINTS / 2));
    columns.steps = kept.steps;
    columns.times = kept.times;
    columns.values = kept.values;
  }
}

export function takeColumns(columns: Columns, indices: readonly number[]): Columns {
  return {
    steps: indices.map((index) => columns.steps[index]!),
    times: indices.map((index) => columns.times[index]!),
    values: indices.map((index) => columns.values[index]!),
  };
}

/** A live message with points of all metrics of an attempt. `point` is the number of its last point. */
export interface PointsMessage {
  attempt: number;
  point: number;
  points: readonly (readonly [string, number, number | string, number | string])[];
}

export interface NumberedPoint {
  number: number;
  step: number;
  time: number;
  value: number;
}

/**
 * The points of a message by metric, each with its number. The points of an attempt are numbered from 1 in the order in
 * which the server stored them; a cursor is the number of the last known point.
 */
export function numberedPoints(message: PointsMessage): Map<string, NumberedPoint[]> {
  const byName = new Map<string, NumberedPoint[]>();
  let number = message.point - message.points.length;
  for (const [name, step, time, value] of message.points) {
    number += 1;
    const point = { number, step, time: parseTime(time), value: parseValue(value) };
    const known = byName.get(name);
    if (known === undefined) byName.set(name, [point]);
    else known.push(point);
  }
  return byName;
}
