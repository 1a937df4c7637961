/** Bars for progress, intervals and costs. Values are fractions of the bar's width. */

import type { CSSProperties } from "react";
import type { StatusTone } from "@/ui/Status";

function style(values: Record<string, string>): CSSProperties {
  return values as CSSProperties;
}

function percent(fraction: number): string {
  return `${(Math.min(1, Math.max(0, fraction)) * 100).toFixed(2)}%`;
}

interface ProgressTrackProps {
  fraction: number;
  tone?: StatusTone;
  /** Fractions at which the job changed its machine. */
  cuts?: readonly number[];
  className?: string;
}

/** The progress of a job as one bar, cut where the machine changed. The text beside it has the value. */
export function ProgressTrack({ fraction, tone = "run", cuts = [], className = "" }: ProgressTrackProps) {
  return (
    <span
      className={["track", tone === "run" ? "" : tone, className].filter(Boolean).join(" ")}
      aria-hidden="true"
    >
      <b style={style({ "--p": percent(fraction) })} />
      {cuts.map((cut, index) => (
        <i key={index} style={style({ left: percent(cut) })} />
      ))}
    </span>
  );
}

interface IntervalBarProps {
  low: number;
  expected: number;
  high: number;
}

/** A band from low to high with a tick at the expected value. */
export function IntervalBar({ low, expected, high }: IntervalBarProps) {
  return (
    <span className="range" aria-hidden="true">
      <span className="band" style={style({ "--a": percent(low), "--b": percent(high) })} />
      <span className="at" style={style({ "--v": percent(expected) })} />
    </span>
  );
}

/** A bar to the expected value with a whisker from low to high. `color` is a token such as `--c1`. */
export function WhiskerBar({ low, expected, high, color = "--c1" }: IntervalBarProps & { color?: string }) {
  return (
    <span className="cbar" style={style({ "--c": `var(${color})` })} aria-hidden="true">
      <span className="fill" style={style({ "--v": percent(expected) })} />
      <span className="wh" style={style({ "--a": percent(low), "--b": percent(high) })} />
    </span>
  );
}

/** A small line of a metric without axes. */
export function Sparkline({
  values,
  width = 72,
  height = 22,
}: {
  values: readonly number[];
  width?: number;
  height?: number;
}) {
  const finite = values.filter(Number.isFinite);
  if (finite.length < 2) return null;
  const low = Math.min(...finite);
  const span = Math.max(...finite) - low || 1;
  const x = (index: number) => (index / (values.length - 1)) * (width - 4) + 1;
  const y = (value: number) => height - 2 - ((value - low) / span) * (height - 4);
  const points = values
    .map((value, index) => ({ value, index }))
    .filter(({ value }) => Number.isFinite(value))
    .map(({ value, index }) => `${x(index).toFixed(1)} ${y(value).toFixed(1)}`);
  const last = values.findLastIndex(Number.isFinite);
  return (
    <svg className="spark" viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      <path d={`M${points.join("L")}`} />
      <circle cx={x(last)} cy={y(values[last]!)} r="2" fill="currentColor" />
    </svg>
  );
}
