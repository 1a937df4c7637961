import type { Schemas } from "@/api/client";
import { formatPercent, plural } from "@/lib/format";

type Errors = Schemas["ErrorSummary"];

/** Median errors and intervals of both stages, as figures. */
export function SummaryFigures({ report }: { report: Schemas["AccuracyReport"] }) {
  const { before, first_steps: later, target } = report;
  return (
    <dl className="stats acc-stats">
      <div className="stat">
        <dt>Compared</dt>
        <dd className="big">{plural(report.jobs, "job")}</dd>
        <dd className="note">the newest completed jobs with a prediction</dd>
      </div>
      <ErrorFigure title="Time, before it ran" errors={before.time} target={target} />
      <ErrorFigure title="Cost, before it ran" errors={before.cost} target={target} />
      <ErrorFigure title="Time, after its first steps" errors={later.time} target={target} />
      <ErrorFigure title="Cost, after its first steps" errors={later.cost} target={target} />
    </dl>
  );
}

function ErrorFigure({ title, errors, target }: { title: string; errors: Errors | null; target: number }) {
  if (errors === null) {
    return (
      <div className="stat">
        <dt>{title}</dt>
        <dd className="big">–</dd>
        <dd className="note">no job with such a prediction</dd>
      </div>
    );
  }
  const isMet = errors.held >= Math.floor(errors.jobs * target);
  return (
    <div className="stat">
      <dt>{title}</dt>
      <dd className="big">
        {formatPercent(errors.median_error)} <small>median off</small>
      </dd>
      <dd className="note">
        {errors.held} of {errors.jobs} inside the interval
        {isMet ? "" : `, ${formatPercent(target)} wanted`}
      </dd>
    </div>
  );
}
