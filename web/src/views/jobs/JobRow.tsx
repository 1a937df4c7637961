import { Link } from "@tanstack/react-router";
import { memo } from "react";
import { useSession } from "@/app/session";
import { formatProgress, formatValue, shortId } from "@/lib/format";
import { progressFraction } from "@/lib/progress";
import { absoluteTime } from "@/lib/time";
import { Checkbox } from "@/ui/controls";
import { ProgressTrack, Sparkline } from "@/ui/Progress";
import { isEnded, Status, statusTone, type StatusTone } from "@/ui/Status";
import { useNow } from "@/ui/Time";
import {
  ageText,
  costCell,
  progressContext,
  shortMetricName,
  statusContext,
  timeCell,
  whereCell,
  type CellText,
} from "@/views/jobs/cells";
import type { ColumnName } from "@/views/jobs/search";
import type { JobSummary } from "@/views/jobs/store";

export interface JobRowProps {
  job: JobSummary;
  /** Position in the table for screen readers; rows outside of the screen are not in the page. */
  rowIndex: number;
  selected: boolean;
  current: boolean;
  hidden: readonly ColumnName[];
  onSelect: (id: string, selected: boolean) => void;
  measure: (element: HTMLTableRowElement | null) => void;
  itemIndex: number;
}

/** One job. It renders again only when the job or its selection changes. */
export const JobRow = memo(function JobRow(props: JobRowProps) {
  const { job, rowIndex, selected, current, hidden, onSelect, measure, itemIndex } = props;
  const shows = (column: ColumnName) => !hidden.includes(column);
  const name = job.name || shortId(job.id);
  return (
    <tr
      ref={measure}
      data-index={itemIndex}
      data-job={job.id}
      className={[selected ? "sel" : "", current ? "cur" : ""].filter(Boolean).join(" ") || undefined}
      aria-rowindex={rowIndex}
      aria-selected={selected}
    >
      <td className="c-check">
        <Checkbox label={`Select ${name}`} checked={selected} onChange={(next) => onSelect(job.id, next)} />
      </td>
      <td className="c-name">
        <Link to="/jobs/$ref" params={{ ref: job.id }} className="nm cut" title={name}>
          {name}
        </Link>
        <small className="l2 cut">
          <span className="mono">{shortId(job.id)}</span>
          {job.tags.map((tag) => (
            <span key={tag} className="tag">
              {tag}
            </span>
          ))}
        </small>
      </td>
      <StatusCell job={job} />
      {shows("progress") && <ProgressCell job={job} />}
      {shows("time") && <TimeCell job={job} />}
      {shows("metric") && <MetricCell job={job} />}
      {shows("where") && <TextCell className="c-where" text={whereCell(job)} />}
      {shows("cost") && <TextCell className="c-cost num" text={costCell(job)} />}
      {shows("age") && <AgeCell job={job} />}
    </tr>
  );
});

function StatusCell({ job }: { job: JobSummary }) {
  const context = statusContext(job);
  return (
    <td className="c-status">
      <span className="l1">
        <Status status={job.status} phase={job.phase} />
      </span>
      <small className="l2 cut" title={context}>
        {context}
      </small>
    </td>
  );
}

function ProgressCell({ job }: { job: JobSummary }) {
  const fraction = progressFraction(job.progress);
  const context = progressContext(job);
  const started = job.attempt > 0;
  if (fraction === null && !started) {
    return (
      <td className="c-prog">
        <span className="t3">not started</span>
      </td>
    );
  }
  return (
    <td className="c-prog">
      <span className="prog">
        <ProgressTrack fraction={fraction ?? 0} tone={trackTone(job)} cuts={job.attempt_marks} />
        <span className="pv">
          {fraction === null && context !== "starting" ? "" : formatProgress(fraction ?? 0)}
        </span>
      </span>
      <small className="l2 cut" title={context}>
        {context}
      </small>
    </td>
  );
}

/** Finished jobs are grey, so that the running ones stand out. */
function trackTone(job: JobSummary): StatusTone {
  const tone = statusTone(job);
  return tone === "done" ? "idle" : tone;
}

const LINE_COLOURS: Partial<Record<StatusTone, string>> = { run: "run", rec: "rec", held: "held" };

function MetricCell({ job }: { job: JobSummary }) {
  const metric = job.main_metric;
  if (metric === null) {
    return (
      <td className="c-metric">
        <span className="t3">{isEnded(job.status) ? "no metrics" : "no metrics yet"}</span>
      </td>
    );
  }
  return (
    <td className="c-metric">
      <span className={`metric ${LINE_COLOURS[statusTone(job)] ?? "idle"}`}>
        <span className="spark-slot">
          <Sparkline values={metric.spark} />
        </span>
        <span className="mv">
          <span className="l1">{formatValue(metric.value)}</span>
          <small className="l2 cut" title={metric.name}>
            {shortMetricName(metric.name)}
          </small>
        </span>
      </span>
    </td>
  );
}

function TimeCell({ job }: { job: JobSummary }) {
  const now = useNow();
  return <TextCell className="c-eta num" text={timeCell(job, now)} />;
}

function AgeCell({ job }: { job: JobSummary }) {
  const now = useNow();
  const { identity } = useSession();
  const person = job.person === identity.person ? "you" : job.person;
  return (
    <td className="c-age num">
      <time className="l1" dateTime={job.submitted_at} title={absoluteTime(job.submitted_at)}>
        {ageText(job.submitted_at, now)}
      </time>
      <small className="l2 cut" title={job.person}>
        {person}
      </small>
    </td>
  );
}

function TextCell({ className, text }: { className: string; text: CellText }) {
  return (
    <td className={className}>
      <span className={text.remark ? "l1 t3" : text.quiet ? "l1 t2" : "l1"}>{text.value}</span>
      {text.context !== "" && (
        <small className="l2 cut" title={text.context}>
          {text.context}
        </small>
      )}
    </td>
  );
}
