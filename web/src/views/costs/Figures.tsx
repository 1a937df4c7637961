/** The five figures at the top of the page. */

import type { ReactNode } from "react";
import type { Schemas } from "@/api/client";
import { percentOf, vars } from "@/lib/css";
import { formatDuration, formatInterval, formatMoney, formatPercent, plural } from "@/lib/format";
import { formatRough } from "@/views/costs/days";

type CostSummary = Schemas["CostSummary"];

export function Figures({ summary }: { summary: CostSummary }) {
  const { total, projection } = summary;
  return (
    <dl className="stats cost-stats">
      <Figure
        name={projection === null ? "Month" : "Month so far"}
        value={formatMoney(total.microusd)}
        note={
          projection === null
            ? `${plural(summary.days_so_far, "day")}, ${plural(total.jobs, "job")}`
            : `${plural(summary.days_so_far, "day")}, ${formatMoney(summary.today_microusd)} today`
        }
      />
      {projection === null ? (
        <AverageDay summary={summary} />
      ) : (
        <Projection spent={total.microusd} {...projection} />
      )}
      <Saved summary={summary} />
      <Lost summary={summary} />
      <Predictions predictions={summary.predictions} />
    </dl>
  );
}

interface FigureProps {
  name: string;
  value: string;
  /** Small text beside the value. */
  more?: string;
  note?: string;
  children?: ReactNode;
}

function Figure({ name, value, more, note, children }: FigureProps) {
  return (
    <div className="stat">
      <dt>{name}</dt>
      <dd className="big">
        {value} {more !== undefined && <small>{more}</small>}
      </dd>
      {note !== undefined && <dd className="note">{note}</dd>}
      {children}
    </div>
  );
}

function AverageDay({ summary }: { summary: CostSummary }) {
  const days = Math.max(1, summary.days_so_far);
  return (
    <Figure
      name="Average day"
      value={formatMoney(summary.total.microusd / days)}
      note={`${formatDuration(summary.total.machine_s)} of machines`}
    />
  );
}

function Projection({ spent, ...projection }: Schemas["MonthEstimate"] & { spent: number }) {
  const { microusd: expected, low_microusd: low, high_microusd: high } = projection;
  const scale = Math.max(high * 1.02, 1);
  const label = `${formatMoney(spent)} spent, ${formatRough(expected)} expected`;
  const part = (from: number, to: number) =>
    vars({ "--x": percentOf(from / scale), "--w": percentOf((to - from) / scale) });
  return (
    <Figure
      name="Whole month"
      value={formatRough(expected)}
      more={formatInterval(formatRough(low), formatRough(high))}
    >
      <dd className="viz">
        <span className="budget open" role="img" aria-label={label} title={projectionBasis(projection)}>
          <b style={part(0, spent)} />
          <i className="exp" style={part(spent, expected)} />
          <i className="iv" style={part(low, high)} />
        </span>
      </dd>
    </Figure>
  );
}

function projectionBasis({ history_days, running_microusd }: Schemas["MonthEstimate"]): string {
  const average =
    history_days === 0 ? "No complete day to average yet" : `Average of ${plural(history_days, "day")}`;
  return `${average}; running jobs still cost ${formatMoney(running_microusd)}`;
}

function Saved({ summary: { total, on_demand_microusd } }: { summary: CostSummary }) {
  const { saved_microusd: saved, spot_microusd: spot } = total;
  if (spot === 0) return <Figure name="Saved by spot" value="–" note="no spot machine was used" />;
  if (saved === 0) {
    return <Figure name="Saved by spot" value="–" note="on-demand prices are not known" />;
  }
  return (
    <Figure
      name="Saved by spot"
      value={formatMoney(saved)}
      more={formatPercent(saved / on_demand_microusd)}
      note={`on-demand would be ${formatMoney(on_demand_microusd)}`}
    />
  );
}

function Lost({ summary: { total } }: { summary: CostSummary }) {
  const { lost_microusd: lost, lost_s, interruptions, microusd } = total;
  const time = lost_s > 0 ? `, ${formatDuration(lost_s)}` : "";
  return (
    <Figure
      name="Work lost"
      value={formatMoney(lost)}
      more={lost > 0 && microusd > 0 ? formatPercent(lost / microusd, 1) : undefined}
      note={`${plural(interruptions, "interruption")}${time}`}
    />
  );
}

function Predictions({ predictions }: { predictions: Schemas["PredictionQuality"] }) {
  const errors = predictions.cost ?? predictions.time;
  if (errors === null) {
    return <Figure name="Predictions" value="–" note="no predicted job has completed" />;
  }
  return (
    <Figure
      name={predictions.cost === null ? "Predictions of time" : "Predictions"}
      value={formatPercent(errors.median_error, 1)}
      more="median off"
      note={`${errors.held} of ${errors.jobs} inside the interval`}
    />
  );
}
