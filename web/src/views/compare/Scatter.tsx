/** Runs as points: any metric against cost, time, a setting or another metric. */

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useId, type CSSProperties } from "react";
import type { MetricsFeed } from "@/charts/metrics-feed";
import { formatElapsedTick } from "@/charts/ticks";
import { formatDuration, formatMoney, formatValue, plural } from "@/lib/format";
import { EmptyState } from "@/ui/states";
import type { Run } from "@/views/compare/runs";
import { horizontalAxis, scatterAxis, settingValue, type ScatterPoint } from "@/views/compare/scatter";
import { compareRows } from "@/views/compare/settings";

interface ScatterProps {
  runs: readonly Run[];
  feeds: ReadonlyMap<string, MetricsFeed>;
  metrics: readonly string[];
  defaultMetric: string;
}

export function Scatter({ runs, feeds, metrics, defaultMetric }: ScatterProps) {
  const search: Record<string, unknown> = useSearch({ strict: false });
  const navigate = useNavigate();
  const settings = compareRows(runs.map((run) => run.settings)).filter((row) => !row.equal);
  // A setting that only some runs have would hide the others.
  const common = settings.find(({ name }) => runs.every((run) => run.settings[name] !== undefined));
  const x =
    typeof search.x === "string" ? search.x : common === undefined ? "cost" : `setting:${common.name}`;
  const y = typeof search.y === "string" && metrics.includes(search.y) ? search.y : defaultMetric;
  const set = (part: Record<string, string>) =>
    void navigate({
      to: ".",
      search: (before: Record<string, unknown>) => ({ ...before, ...part }),
      replace: true,
      resetScroll: false,
    });
  const points = runs.flatMap((run) => scatterPoint(run, feeds.get(run.id), x, y));
  return (
    <section className="panel" aria-labelledby="scatter-title">
      <header>
        <h2 id="scatter-title">Scatter</h2>
        <Choice label="Vertical axis" value={y} onChange={(value) => set({ y: value })}>
          {metrics.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </Choice>
        <span className="t3 small">against</span>
        <Choice label="Horizontal axis" value={x} onChange={(value) => set({ x: value })}>
          <option value="cost">Cost</option>
          <option value="time">Time</option>
          <optgroup label="Settings">
            {settings.map(({ name }) => (
              <option key={name} value={`setting:${name}`}>
                {name}
              </option>
            ))}
          </optgroup>
          <optgroup label="Metrics">
            {metrics.map((name) => (
              <option key={name} value={`metric:${name}`}>
                {name}
              </option>
            ))}
          </optgroup>
        </Choice>
      </header>
      {points.length === 0 ? (
        <EmptyState small title="No run has both values">
          Choose another metric or another horizontal axis.
        </EmptyState>
      ) : (
        <ScatterPlot points={points} x={x} y={y} />
      )}
    </section>
  );
}

interface ChoiceProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  children: React.ReactNode;
}

function Choice({ label, value, onChange, children }: ChoiceProps) {
  const id = useId();
  return (
    <span className="choice">
      <label className="sr" htmlFor={id}>
        {label}
      </label>
      <span className="field">
        <select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
          {children}
        </select>
      </span>
    </span>
  );
}

function scatterPoint(run: Run, feed: MetricsFeed | undefined, x: string, y: string): ScatterPoint[] {
  const metric = (name: string) => feed?.store.summaries.get(name)?.last;
  const vertical = metric(y);
  const horizontal = horizontalValue(run, x, metric);
  if (vertical === undefined || !Number.isFinite(vertical) || horizontal === undefined) return [];
  return [{ id: run.id, label: run.label, color: run.color, x: horizontal, y: vertical }];
}

function horizontalValue(
  run: Run,
  x: string,
  metric: (name: string) => number | undefined,
): number | string | undefined {
  if (x === "cost") return run.job.cost_microusd;
  if (x === "time") return run.wallS;
  if (x.startsWith("metric:")) {
    const value = metric(x.slice("metric:".length));
    return value !== undefined && Number.isFinite(value) ? value : undefined;
  }
  const text = run.settings[x.replace(/^setting:/, "")];
  return text === undefined ? undefined : settingValue(text);
}

/** The text of a horizontal value. */
function horizontalText(x: string, value: number | string): string {
  if (typeof value === "string") return value;
  if (x === "cost") return formatMoney(value);
  return x === "time" ? formatDuration(value) : formatValue(value);
}

function ScatterPlot({ points, x, y }: { points: ScatterPoint[]; x: string; y: string }) {
  const axisText = x === "cost" ? formatMoney : x === "time" ? formatElapsedTick : undefined;
  const horizontal = horizontalAxis(
    points.map((point) => point.x),
    axisText,
  );
  const vertical = scatterAxis(points.map((point) => point.y));
  const name = x.replace(/^(setting|metric):/, "");
  const label = `${y} against ${name}, ${plural(points.length, "run")}: ${points
    .map((point) => `${point.label} ${formatValue(point.y)} at ${horizontalText(x, point.x)}`)
    .join("; ")}`;
  return (
    <div className="scatter">
      <div className="plot" role="img" aria-label={label}>
        {vertical.ticks.map(({ place, text }, index) => (
          <span key={place} className={index === 0 ? "gl base" : "gl"} style={at({ "--y": place })}>
            <span className="y">{text}</span>
          </span>
        ))}
        {horizontal.ticks.map(({ place, text }) => (
          <span key={place} className="x" style={at({ "--x": place })}>
            {text}
          </span>
        ))}
        {points.map((point) => (
          <span
            key={point.id}
            className={horizontal.place(point.x) > 0.75 ? "dot left" : "dot"}
            style={
              {
                ...at({ "--x": horizontal.place(point.x), "--y": vertical.place(point.y) }),
                "--c": `var(${point.color})`,
              } as CSSProperties
            }
            title={`${point.label}: ${y} ${formatValue(point.y)}, ${name} ${horizontalText(x, point.x)}`}
          >
            <small className="cut">{point.label}</small>
          </span>
        ))}
      </div>
      <p className="t3 tiny num">
        {name}
        {horizontal.log && ", logarithmic"}
      </p>
    </div>
  );
}

function at(places: Record<string, number>): CSSProperties {
  return Object.fromEntries(
    Object.entries(places).map(([name, place]) => [name, `${(place * 100).toFixed(2)}%`]),
  ) as CSSProperties;
}
