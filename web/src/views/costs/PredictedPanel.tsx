/** Predictions beside results: a dot for each job on an axis from half to double. */

import { Link } from "@tanstack/react-router";
import { percentOf, vars } from "@/lib/css";
import { formatDuration, formatMoney, shortId } from "@/lib/format";
import { Segmented } from "@/ui/controls";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { useJudgedJobs } from "@/views/costs/data";
import { formatOff, ratioPosition, ratioRows, type RatioRow } from "@/views/costs/ratio";

type What = "cost" | "time";
const CHOICES = [
  { value: "cost", label: "Cost" },
  { value: "time", label: "Time" },
] as const;

interface PredictedPanelProps {
  what: What;
  onChange: (what: What) => void;
}

export function PredictedPanel({ what, onChange }: PredictedPanelProps) {
  const query = useJudgedJobs();
  const rows = query.data === undefined ? undefined : ratioRows(query.data.jobs, what);
  return (
    <section className="panel" aria-labelledby="costs-predicted">
      <header>
        <h2 id="costs-predicted">Predicted and actual</h2>
        <span className="key">
          <span>
            <i className="kd" />
            inside the interval
          </span>
          <span>
            <i className="kd out" />
            outside
          </span>
        </span>
        <Segmented label="What was predicted" value={what} choices={CHOICES} onChange={onChange} />
      </header>
      {query.error !== null && (
        <ErrorState
          title="The predictions could not be loaded"
          error={query.error}
          onRetry={() => void query.refetch()}
        />
      )}
      {rows === undefined && query.error === null && <Skeleton label="Loading predictions" rows={3} />}
      {rows !== undefined &&
        (rows.length === 0 ? (
          <EmptyState small title={`No ${what} to compare yet`}>
            {what === "cost"
              ? "Jobs on rented machines appear here when they complete, if their cost was predicted."
              : "Jobs appear here when they complete, if their time was predicted."}
          </EmptyState>
        ) : (
          <Rows rows={rows} what={what} />
        ))}
    </section>
  );
}

function Rows({ rows, what }: { rows: readonly RatioRow[]; what: What }) {
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label={`Predicted and actual ${what} by job`}>
      <table className="tbl acc2">
        <thead>
          <tr>
            <th>Job</th>
            <th className="dp">
              <span className="sr">Actual relative to predicted</span>
              <span className="dpax" aria-hidden="true">
                <i>half</i>
                <i>as predicted</i>
                <i>double</i>
              </span>
            </th>
            <th className="num">Predicted</th>
            <th className="num">Actual</th>
            <th className="num">Off by</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row key={row.id} row={row} format={what === "cost" ? formatMoney : formatDuration} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ row, format }: { row: RatioRow; format: (value: number) => string }) {
  const name = row.name || shortId(row.id);
  const band = vars({ "--a": percentOf(ratioPosition(row.low)), "--b": percentOf(ratioPosition(row.high)) });
  return (
    <tr>
      <td className="med">
        <Link className="cut" to="/jobs/$ref" params={{ ref: row.id }} title={name}>
          {name}
        </Link>
      </td>
      <td className="dp">
        <span className="dot-row" aria-hidden="true">
          <i className="band" style={band} />
          <i className="one" />
          <i
            className={row.inside ? "d" : "d out"}
            style={vars({ "--x": percentOf(ratioPosition(row.ratio)) })}
          />
        </span>
      </td>
      <td className="num nowrap">{format(row.predicted)}</td>
      <td className="num nowrap">{format(row.actual)}</td>
      <td className={row.inside ? "num nowrap" : "num nowrap bad"}>
        {formatOff(row.ratio)}
        {!row.inside && <span className="sr">, outside the interval</span>}
      </td>
    </tr>
  );
}
