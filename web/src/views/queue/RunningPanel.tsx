import { Link } from "@tanstack/react-router";
import { plural, shortId } from "@/lib/format";
import { EmptyState } from "@/ui/states";
import { Status } from "@/ui/Status";
import { RelativeTime } from "@/ui/Time";
import type { RunningJob } from "@/views/queue/data";

/** Jobs that have a machine. */
export function RunningPanel({ jobs }: { jobs: readonly RunningJob[] }) {
  return (
    <section className="panel" aria-labelledby="running">
      <header>
        <h2 id="running">Running</h2>
        <span className="sub">{jobs.length === 0 ? "" : plural(jobs.length, "job")}</span>
      </header>
      {jobs.length === 0 ? (
        <EmptyState small title="No job is running" />
      ) : (
        <div className="scroll-x" tabIndex={0} role="region" aria-label="Table of running jobs">
          <table className="tbl">
            <thead>
              <tr>
                <th>Job</th>
                <th>Status</th>
                <th>On</th>
                <th className="num">Since</th>
              </tr>
            </thead>
            <tbody>
              {jobs.map((job) => (
                <tr key={job.id}>
                  <td className="two">
                    <Link className="med cut" to="/jobs/$ref" params={{ ref: job.id }}>
                      {job.name || shortId(job.id)}
                    </Link>
                    <small>{shortId(job.id)}</small>
                  </td>
                  <td>
                    <Status status="running" phase={job.phase} />
                  </td>
                  <td>{job.backend ?? "–"}</td>
                  <td className="num">
                    <RelativeTime at={job.since} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
