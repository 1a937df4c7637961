import type { Schemas } from "@/api/client";
import { formatCount, formatPercent, sentenceCase } from "@/lib/format";

const NAMES: Record<string, string> = {
  said: "the duration given with the job",
  history: "past runs",
  code: "the code",
  "first steps": "its first steps",
  nothing: "an assumption",
};

interface BasisRow {
  key: string;
  stage: string;
  basis: string;
  accuracy: Schemas["BasisAccuracy"];
}

/** The accuracy of predictions by what they were made from. */
export function BasisPanel({ report }: { report: Schemas["AccuracyReport"] }) {
  const rows = [
    ...stageRows("before it ran", report.before),
    ...stageRows("after its first steps", report.first_steps),
  ];
  return (
    <section className="panel" aria-labelledby="by-basis">
      <header>
        <h2 id="by-basis">By source of the prediction</h2>
        <span className="sub">
          {formatPercent(report.target)} of the results should be inside the interval
        </span>
      </header>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Accuracy by source of the prediction">
        <table className="tbl basis">
          <thead>
            <tr>
              <th>Predicted from</th>
              <th className="num">Jobs</th>
              <th className="num">Time off</th>
              <th className="num">Nine in ten below</th>
              <th className="num">Inside</th>
              <th className="num">Interval</th>
              <th className="num">Cost off</th>
              <th className="num">Inside</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ key, stage, basis, accuracy: { jobs, time, cost } }) => (
              <tr key={key}>
                <td className="two">
                  {sentenceCase(NAMES[basis] ?? basis)}
                  <small>{stage}</small>
                </td>
                <td className="num">{formatCount(jobs)}</td>
                <td className="num">{time === null ? "–" : formatPercent(time.median_error)}</td>
                <td className="num">{time === null ? "–" : formatPercent(time.p90_error)}</td>
                <td className="num">{time === null ? "–" : `${time.held} of ${time.jobs}`}</td>
                <td className="num">{time === null ? "–" : `× ${time.median_width.toFixed(1)}`}</td>
                <td className="num">{cost === null ? "–" : formatPercent(cost.median_error)}</td>
                <td className="num">{cost === null ? "–" : `${cost.held} of ${cost.jobs}`}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function stageRows(stage: string, accuracy: Schemas["StageAccuracy"]): BasisRow[] {
  return Object.entries(accuracy.by_basis).map(([basis, each]) => ({
    key: `${stage} ${basis}`,
    stage,
    basis,
    accuracy: each,
  }));
}
