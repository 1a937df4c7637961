/** Predictions beside results: a dot for each job on a ratio axis, with the predicted interval as a band. */

import { Link } from "@tanstack/react-router";
import type { CSSProperties } from "react";
import { formatDuration, formatMoney, shortId } from "@/lib/format";
import { offBy, ratioAxis, ratioPlace, type RatioAxis, type RatioPoint, type What } from "@/lib/ratio";
import "@/styles/ratio.css";

/** What the two kinds of dots mean. */
export function RatioKey() {
  return (
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
  );
}

export function RatioTable({ points, what }: { points: readonly RatioPoint[]; what: What }) {
  const axis = ratioAxis(points);
  const format = what === "cost" ? formatMoney : formatDuration;
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label={`Predicted and actual ${what} by job`}>
      <table className="tbl acc2">
        <thead>
          <tr>
            <th>Job</th>
            <th className="dp">
              <span className="sr">Actual relative to predicted</span>
              <span className="dpax" aria-hidden="true">
                <i>{axis.low}</i>
                <i>as predicted</i>
                <i>{axis.high}</i>
              </span>
            </th>
            <th className="num">Predicted</th>
            <th className="num">Actual</th>
            <th className="num">Off by</th>
          </tr>
        </thead>
        <tbody>
          {points.map((point) => (
            <tr key={point.id}>
              <td className="med">
                <Link
                  className="cut"
                  to="/jobs/$ref"
                  params={{ ref: point.id }}
                  search={{ tab: "plan" }}
                  title={point.name || shortId(point.id)}
                >
                  {point.name || shortId(point.id)}
                </Link>
              </td>
              <td className="dp">
                <RatioDot point={point} axis={axis} />
              </td>
              <td className="num nowrap">{format(point.predicted)}</td>
              <td className="num nowrap">{format(point.actual)}</td>
              <td className={point.inside ? "num nowrap" : "num nowrap bad"}>{offBy(point.ratio)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function RatioDot({ point, axis }: { point: RatioPoint; axis: RatioAxis }) {
  const percent = (ratio: number) => `${(ratioPlace(ratio, axis.span) * 100).toFixed(1)}%`;
  const places = {
    "--low": percent(point.low),
    "--high": percent(point.high),
    "--at": percent(point.ratio),
  } as CSSProperties;
  const label = `${offBy(point.ratio)}, ${point.inside ? "inside" : "outside"} the interval`;
  return (
    <span className="dot-row" style={places} role="img" aria-label={label}>
      <i className="band" />
      <i className="one" />
      <i className={point.inside ? "d" : "d out"} />
    </span>
  );
}
