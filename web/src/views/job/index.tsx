import { Link, Navigate, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { asProblem } from "@/api/client";
import { useSession } from "@/app/session";
import { useShortcuts, type Shortcut } from "@/app/shortcuts";
import { PageTitle } from "@/app/TopBar";
import { sentenceCase, shortId } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Icon } from "@/ui/Icon";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { statusWord } from "@/ui/Status";
import { useJobActions } from "@/views/job/actions";
import { possibleActions } from "@/views/job/possible";
import { jobKey, useEvents, useJob, useLiveJob } from "@/views/job/data";
import type { Job } from "@/views/job/merge";
import { Figures } from "@/views/job/figures/Figures";
import { JobActions } from "@/views/job/header/JobActions";
import { JobHeader } from "@/views/job/header/JobHeader";
import { JobNotice } from "@/views/job/header/JobNotice";
import { NodesPanel } from "@/views/job/nodes/NodesPanel";
import { isTab, JobTabs, TABS, type TabName } from "@/views/job/tabs/JobTabs";
import { ResumeDialog } from "@/views/job/header/ResumeDialog";
import { TabContent } from "@/views/job/tabs/TabContent";
import { AttemptTimeline } from "@/views/job/timeline/AttemptTimeline";
import "./job.css";

/** One job: `/jobs/REF`. */
export default function JobPage() {
  const { ref } = useParams({ from: "/jobs/$ref" });
  const query = useJob(ref);
  const title = query.data?.name || (query.data === undefined ? "Job" : shortId(query.data.id));
  return (
    <>
      <PageTitle text={title}>
        <nav className="crumb" aria-label="Breadcrumb">
          <Link to="/jobs">Jobs</Link>
          <Icon name="chevronRight" size={12} />
          <span className="cut">{title}</span>
        </nav>
      </PageTitle>
      <JobState jobRef={ref} query={query} />
    </>
  );
}

interface JobStateProps {
  jobRef: string;
  query: ReturnType<typeof useJob>;
}

function JobState({ jobRef, query }: JobStateProps) {
  const isGone = query.error !== null && asProblem(query.error).status === 404;
  if (isGone) return <GoneState jobRef={jobRef} known={query.data} />;
  if (query.data !== undefined) {
    // A name or `last` may mean another job later; the address then names this one.
    if (query.data.id !== jobRef) return <CanonicalAddress job={query.data} />;
    return <JobView job={query.data} jobRef={jobRef} key={jobRef} />;
  }
  if (query.error === null) return <Skeleton label="Loading the job" rows={8} />;
  return (
    <ErrorState
      title="The job could not be loaded"
      error={query.error}
      onRetry={() => void query.refetch()}
    />
  );
}

function CanonicalAddress({ job }: { job: Job }) {
  const client = useQueryClient();
  useEffect(() => void client.setQueryData(jobKey(job.id), job), [client, job]);
  return <Navigate to="/jobs/$ref" params={{ ref: job.id }} search={(old) => old} replace />;
}

function GoneState({ jobRef, known }: { jobRef: string; known: Job | undefined }) {
  const jobs = (
    <Link className="btn" to="/jobs">
      All jobs
    </Link>
  );
  if (known !== undefined) {
    return (
      <EmptyState title={`${known.name || shortId(known.id)} was deleted`} actions={jobs}>
        Its log, metrics and files are gone. Its cost stays in the books.
      </EmptyState>
    );
  }
  return (
    <EmptyState title={`There is no job “${jobRef}”`} actions={jobs}>
      It may belong to another project, or it was deleted.
    </EmptyState>
  );
}

function JobView({ job, jobRef }: { job: Job; jobRef: string }) {
  const { can } = useSession();
  const [resuming, setResuming] = useState(false);
  const requests = useJobActions(job, jobRef);
  const tab = useTab();
  useLiveJob(job, jobRef);
  useTabShortcuts();
  const events = useEvents(job.id).data?.total ?? null;
  const resume = () => setResuming(true);
  const better = job.better;
  const migrate =
    better !== null && can("write") && possibleActions(job).migrate ? (
      <Button
        disabled={requests.migrate.isPending}
        onClick={() => requests.migrate.mutate(better.place.backend)}
      >
        Migrate
      </Button>
    ) : null;
  return (
    <>
      <JobHeader
        job={job}
        requests={requests}
        actions={<JobActions job={job} requests={requests} onResume={resume} />}
      />
      <JobNotice job={job} requests={requests} onResume={resume} />
      <Figures job={job} />
      {job.attempts.length > 0 && <AttemptTimeline job={job} migrate={migrate} />}
      <NodesPanel job={job} />
      <JobTabs chosen={tab} job={job} events={events} />
      <div className="job-panels">
        <TabContent tab={tab} job={job} requests={requests} />
      </div>
      <ResumeDialog job={job} requests={requests} open={resuming} onClose={() => setResuming(false)} />
      <StatusAnnouncement job={job} />
    </>
  );
}

function useTab(): TabName {
  const { tab } = useSearch({ from: "/jobs/$ref" });
  return isTab(tab) ? tab : "overview";
}

function useTabShortcuts(): void {
  const navigate = useNavigate();
  const shortcuts: Shortcut[] = TABS.map((tab, index) => ({
    keys: String(index + 1),
    label: `Show ${tab}`,
    group: "Job",
    run: () =>
      void navigate({
        to: ".",
        search: (old) => ({ ...old, tab: tab === "overview" ? undefined : tab }),
        resetScroll: false,
      }),
  }));
  useShortcuts(shortcuts);
}

const ANNOUNCE_EVERY_MS = 5000;

/** Says a changed status to screen readers, at most once in five seconds. */
function StatusAnnouncement({ job }: { job: Job }) {
  const word = sentenceCase(statusWord(job));
  const [said, setSaid] = useState(word);
  useEffect(() => {
    const timer = setTimeout(() => setSaid(word), ANNOUNCE_EVERY_MS);
    return () => clearTimeout(timer);
  }, [word]);
  return (
    <div className="sr" role="status">
      {said}
    </div>
  );
}
