/** The use of a machine as rows of small plots: GPU, GPU memory, temperature, CPU, memory, disk, network. */

import type { Schemas } from "@/api/client";
import { formatBytes, formatPercent } from "@/lib/format";

/** A line of a row: points of time (Unix seconds) and value; null begins a new machine. */
export type TelemetryLine = readonly (readonly [number, number | null])[];

export interface MachineRow {
  key: string;
  title: string;
  note: string;
  /** A colour token. */
  color: string;
  lines: TelemetryLine[];
  /** The value at the top of the plot. */
  top: number;
  /** The newest value as text. */
  value: string;
}

type Series = Schemas["TelemetrySeries"];

/** One series over all attempts. */
export interface MachineSeries extends Omit<Series, "points"> {
  points: [number, number | null][];
}

/** The answer of the API. Each point is a pair of time and value. */
interface SentHistory {
  attempts: readonly {
    series: readonly (Omit<Series, "points"> & { points: readonly (readonly number[])[] })[];
  }[];
}

const MIN_GAP_S = 60;
const GAP_INTERVALS = 5;
const JUDGED_POINTS = 20;

/**
 * The time without a measurement from which on a line has a gap: five times the usual distance of its points.
 *
 * A down-sampled line has the lowest and the highest of every part, so its distances vary by up to four times the mean.
 */
function gapLimit(times: readonly number[]): number {
  const distances = times.slice(1).map((time, index) => time - times[index]!);
  distances.sort((a, b) => a - b);
  const usual = distances[Math.floor((distances.length - 1) * 0.75)] ?? 0;
  return Math.max(MIN_GAP_S, GAP_INTERVALS * usual);
}

/** The points with a null where nothing was measured for long. */
function withGaps(points: readonly [number, number][]): [number, number | null][] {
  const limit = gapLimit(points.map(([time]) => time));
  return points.flatMap(([time, value], index) => {
    const before = points[index - 1]?.[0] ?? time;
    const point: [number, number | null] = [time, value];
    return time - before > limit ? [[time, null], point] : [point];
  });
}

/** Join the attempts, with gaps where the machine changed or was not measured. */
export function joinAttempts(history: SentHistory): Map<string, MachineSeries> {
  const joined = new Map<string, MachineSeries>();
  for (const { series } of history.attempts) {
    for (const { points, ...facts } of series) {
      const known = joined.get(facts.name);
      const before = known?.points ?? [];
      const added = withGaps(points.map(([time, value]): [number, number] => [time!, value!]));
      const gap: [number, null][] = before.length > 0 && added.length > 0 ? [[added[0]![0], null]] : [];
      joined.set(facts.name, { ...facts, points: [...before, ...gap, ...added] });
    }
  }
  return joined;
}

const ROWS: readonly { key: string; title: string; pattern: RegExp; color: string; note?: string }[] = [
  { key: "gpu", title: "GPU", pattern: /^gpu\d+\.utilisation$/, color: "--c3" },
  { key: "gpu-memory", title: "GPU memory", pattern: /^gpu\d+\.memory_used$/, color: "--c3" },
  { key: "gpu-heat", title: "GPU heat", pattern: /^gpu\d+\.temperature$/, color: "--c3" },
  { key: "gpu-power", title: "GPU power", pattern: /^gpu\d+\.power$/, color: "--c3" },
  { key: "cpu", title: "CPU", pattern: /^cpu\.utilisation$/, color: "--c1", note: "all cores" },
  { key: "memory", title: "Memory", pattern: /^memory\.used$/, color: "--c1" },
  { key: "disk", title: "Disk", pattern: /^disk\.used$/, color: "--c4" },
  { key: "received", title: "Network", pattern: /^network\.received$/, color: "--c4", note: "in" },
  { key: "sent", title: "Network", pattern: /^network\.sent$/, color: "--c4", note: "out" },
];

/** The rows for which there are measurements. Several GPUs are several lines of one row. */
export function machineRows(series: ReadonlyMap<string, MachineSeries>): MachineRow[] {
  return ROWS.flatMap(({ key, title, pattern, color, note }) => {
    const found = [...series.values()].filter((each) => pattern.test(each.name));
    if (found.length === 0) return [];
    const lines = found.map((each) => each.points);
    return [
      { key, title, note: note ?? noteOf(found), color, lines, top: topOf(found), value: valueOf(found) },
    ];
  });
}

function noteOf(series: readonly MachineSeries[]): string {
  const [first] = series;
  const limits = series.map((each) => each.limit ?? 0);
  if (limits.some((limit) => limit > 0)) return `of ${formatBytes(sum(limits))}`;
  const label = shortGpuName(first!.label);
  return series.length > 1 ? `${series.length} × ${label || "GPU"}` : label;
}

/** "NVIDIA A10" is "A10". */
export function shortGpuName(label: string): string {
  return label.replace(/^NVIDIA\s+(GeForce\s+)?/i, "");
}

const WARMEST_C = 100;

function topOf(series: readonly MachineSeries[]): number {
  const { unit } = series[0]!;
  if (unit === "fraction") return 1;
  if (unit === "celsius") return WARMEST_C;
  const limit = Math.max(...series.map((each) => each.limit ?? 0));
  if (limit > 0) return limit;
  return Math.max(1, ...series.flatMap((each) => each.points.map(([, value]) => value ?? 0)));
}

function valueOf(series: readonly MachineSeries[]): string {
  const newest = series.map((each) => each.points.at(-1)?.[1] ?? 0);
  const total = sum(newest);
  switch (series[0]!.unit) {
    case "fraction":
      return formatPercent(total / newest.length);
    case "celsius":
      return `${Math.round(Math.max(...newest))}\u00a0°C`;
    case "watts":
      return `${Math.round(total)}\u00a0W`;
    case "bytes_per_s":
      return `${formatBytes(total)}/s`;
    default:
      return formatBytes(total);
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** Split a line into the parts between gaps, as paths in a box of `width` by `height` units. */
export function plotPaths(
  line: TelemetryLine,
  { from, to, top, width, height }: { from: number; to: number; top: number; width: number; height: number },
): string[] {
  const span = Math.max(1e-9, to - from);
  const parts: string[][] = [[]];
  for (const [time, value] of line) {
    if (value === null) parts.push([]);
    else {
      const x = ((time - from) / span) * width;
      const y = height - Math.min(1, Math.max(0, value / top)) * height;
      parts.at(-1)!.push(`${x.toFixed(1)} ${y.toFixed(1)}`);
    }
  }
  return parts.filter((part) => part.length > 0).map((part) => `M${part.join("L")}`);
}

/** Add a live telemetry sample. What is known already, or has not the expected form, changes nothing. */
export function addSample(
  series: ReadonlyMap<string, MachineSeries>,
  sample: Record<string, unknown>,
): ReadonlyMap<string, MachineSeries> {
  const at = sample.at;
  if (typeof at !== "number" || !Number.isFinite(at)) return series;
  let next: Map<string, MachineSeries> | null = null;
  for (const { value, ...facts } of sampleReadings(sample)) {
    if (typeof value !== "number" || !Number.isFinite(value)) continue;
    const points = series.get(facts.name)?.points ?? [];
    const newest = points.at(-1)?.[0] ?? -Infinity;
    if (newest >= at) continue;
    const gap: [number, null][] =
      points.length > 0 && at - newest > recentGapLimit(points) ? [[at, null]] : [];
    next ??= new Map(series);
    next.set(facts.name, { ...facts, points: [...points, ...gap, [at, value]] });
  }
  return next ?? series;
}

function recentGapLimit(points: MachineSeries["points"]): number {
  const recent = points.slice(-JUDGED_POINTS).filter(([, value]) => value !== null);
  return gapLimit(recent.map(([time]) => time));
}

type Reading = Omit<MachineSeries, "points"> & { value: unknown };

function sampleReadings(sample: Record<string, unknown>): Reading[] {
  const gpus = Array.isArray(sample.gpus) ? sample.gpus.map(asRecord) : [];
  const reading = (
    name: string,
    unit: string,
    value: unknown,
    limit: unknown = null,
    label = "",
  ): Reading => ({
    name,
    unit,
    value,
    limit: typeof limit === "number" ? limit : null,
    label,
  });
  const memory = asRecord(sample.memory);
  const disk = asRecord(sample.disk);
  const network = asRecord(sample.net);
  return [
    ...gpus.flatMap((gpu, place) => {
      const prefix = `gpu${typeof gpu.index === "number" ? gpu.index : place}`;
      const label = typeof gpu.name === "string" ? gpu.name : "";
      return [
        reading(`${prefix}.utilisation`, "fraction", gpu.use, null, label),
        reading(`${prefix}.memory_used`, "bytes", gpu.memory_used, gpu.memory_total, label),
        reading(`${prefix}.temperature`, "celsius", gpu.temperature_c, null, label),
        reading(`${prefix}.power`, "watts", gpu.power_w, null, label),
      ];
    }),
    reading("cpu.utilisation", "fraction", sample.cpu),
    reading("memory.used", "bytes", memory.used, memory.total),
    reading("disk.used", "bytes", disk.used, disk.total),
    reading("network.received", "bytes_per_s", network.received),
    reading("network.sent", "bytes_per_s", network.sent),
  ];
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
