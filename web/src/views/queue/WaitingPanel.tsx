import { Link } from "@tanstack/react-router";
import { useSession } from "@/app/session";
import { formatDuration, plural, sentenceCase, shortId } from "@/lib/format";
import { clockTime } from "@/lib/time";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/states";
import { useNow } from "@/ui/Time";
import { useStartNow, type WaitingJob } from "@/views/queue/data";

/** Waiting jobs in the order in which they start. */
export function WaitingPanel({ jobs }: { jobs: readonly WaitingJob[] }) {
  return (
    <section className="panel" aria-labelledby="waiting">
      <header>
        <h2 id="waiting">Waiting</h2>
        <span className="sub">
          {jobs.length === 0 ? "" : `${plural(jobs.length, "job")}, in the order in which they start`}
        </span>
      </header>
      {jobs.length === 0 ? (
        <EmptyState small title="No job is waiting" command="anygpu run train.py">
          A job waits here when no machine is free for it.
        </EmptyState>
      ) : (
        <div className="scroll-x" tabIndex={0} role="region" aria-label="Table of waiting jobs">
          <table className="tbl wait">
            <thead>
              <tr>
                <th className="num">Place</th>
                <th>Job</th>
                <th>Waits for</th>
                <th className="num">Starts</th>
                <th className="num">Priority</th>
                <th>
                  <span className="sr">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {jobs.map((job) => (
                <WaitingRow key={job.id} job={job} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function WaitingRow({ job }: { job: WaitingJob }) {
  const { can } = useSession();
  const start = useStartNow();
  const name = job.name || shortId(job.id);
  return (
    <tr>
      <td className="num">{job.position}</td>
      <td className="two">
        <Link className="med cut" to="/jobs/$ref" params={{ ref: job.id }} title={name}>
          {name}
        </Link>
        <small>{shortId(job.id)}</small>
      </td>
      <td className="two why">
        {sentenceCase(job.reason || "its turn")}
        <small>waiting {formatDuration(job.waiting_s)}</small>
      </td>
      <td className="num two">
        <PredictedStart waitSeconds={job.wait_s} />
      </td>
      <td className="num two">
        {job.priority}
        <small>{job.band} jobs</small>
      </td>
      <td className="num">
        {can("write") && (
          <Button
            icon="play"
            disabled={start.isPending || start.isSuccess}
            title={start.isSuccess ? "It starts as soon as a machine is free" : "Start it before the others"}
            onClick={() => start.mutate(job.id)}
          >
            {start.isSuccess ? "Starts next" : "Start now"}
          </Button>
        )}
      </td>
    </tr>
  );
}

function PredictedStart({ waitSeconds }: { waitSeconds: number | null }) {
  const now = useNow();
  if (waitSeconds === null) {
    return (
      <>
        not predicted
        <small>jobs ahead have no prediction</small>
      </>
    );
  }
  if (waitSeconds < 1) return <>as soon as possible</>;
  return (
    <>
      in {formatDuration(waitSeconds)}
      <small>about {clockTime(now + waitSeconds * 1000)}</small>
    </>
  );
}
