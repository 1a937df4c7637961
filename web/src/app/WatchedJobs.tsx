import { useQueries, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { api, asProblem, unwrap, type Schemas } from "@/api/client";
import { announce, noticeOf } from "@/app/notifications";
import { unwatchJob, useWatched } from "@/app/watched";
import { formatProgress, shortId } from "@/lib/format";
import { progressFraction } from "@/lib/progress";
import { useProjectMessages } from "@/live/hooks";
import { ProgressTrack } from "@/ui/Progress";
import { isEnded, StatusIcon, statusTone, statusWord } from "@/ui/Status";

type JobSummary = Schemas["JobSummary"];

const HIDDEN_POLL_MS = 60_000;
const WATCHED = "watched";
const keyOf = (id: string) => [WATCHED, id];

/** The watched jobs with their progress, and messages when one of them ends, fails or is interrupted. */
export function WatchedJobs() {
  const jobs = useWatchedSummaries();
  if (jobs.length === 0) return null;
  return (
    <section className="watch" aria-label="Watched jobs">
      <p className="side-label">Watching</p>
      {jobs.map((job) => {
        const fraction = progressFraction(job.progress);
        const name = job.name || shortId(job.id);
        return (
          <Link key={job.id} to="/jobs/$ref" params={{ ref: job.id }} title={`${name}, ${statusWord(job)}`}>
            <StatusIcon status={job.status} phase={job.phase} />
            <span className="cut">{name}</span>
            <span className="pct">{fraction === null ? "" : formatProgress(fraction)}</span>
            <ProgressTrack fraction={fraction ?? 0} tone={statusTone(job)} cuts={job.attempt_marks} />
          </Link>
        );
      })}
    </section>
  );
}

function useWatchedSummaries(): JobSummary[] {
  const ids = useWatched();
  const client = useQueryClient();
  const navigate = useNavigate();
  const known = useRef(new Map<string, JobSummary>());
  const note = (job: JobSummary) => {
    const before = known.current.get(job.id);
    known.current.set(job.id, job);
    const notice = before === undefined ? null : noticeOf(before, job);
    if (notice === null) return;
    announce(notice, job.id, () => void navigate({ to: "/jobs/$ref", params: { ref: job.id } }));
  };
  const results = useQueries({
    queries: ids.map((id) => ({
      queryKey: keyOf(id),
      queryFn: () => unwrap(api.GET("/api/v1/training/{ref}", { params: { path: { ref: id } } })),
      // A hidden tab closes its connection, and looks once a minute at the jobs that have not ended.
      refetchInterval: () => {
        const job = client.getQueryData<JobSummary>(keyOf(id));
        return document.hidden && !isEnded(job?.status ?? "") ? HIDDEN_POLL_MS : false;
      },
      refetchIntervalInBackground: true,
      staleTime: Infinity,
    })),
  });
  useProjectMessages((messages) => {
    for (const message of messages) {
      // A watched job may have ended between the read and the start of the follow.
      if (message.kind === "position") void client.invalidateQueries({ queryKey: [WATCHED] });
      if (message.kind === "summary" && ids.includes(message.job.id)) {
        client.setQueryData<JobSummary>(keyOf(message.job.id), message.job);
      }
    }
  });
  const jobs = results.flatMap((each) => (each.data === undefined ? [] : [each.data as JobSummary]));
  useEffect(() => jobs.forEach(note));
  useEffect(() => {
    results.forEach((each, index) => {
      const gone = each.error !== null && asProblem(each.error).status === 404;
      if (gone) unwatchJob(ids[index] ?? "");
    });
  });
  return jobs;
}
