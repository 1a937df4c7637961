import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useSession } from "@/app/session";
import { formatDuration, formatMoney, sentenceCase } from "@/lib/format";
import { shortTime } from "@/lib/time";
import { Button } from "@/ui/Button";
import { Callout } from "@/ui/states";
import { StatusIcon } from "@/ui/Status";
import { useNow } from "@/ui/Time";
import type { JobRequests } from "@/views/job/actions";
import { possibleActions } from "@/views/job/possible";
import { failureAdvice } from "@/views/job/header/advice";
import type { Job } from "@/views/job/merge";
import { failedNode } from "@/views/job/nodes/state";

interface JobNoticeProps {
  job: Job;
  requests: JobRequests;
  onResume: () => void;
}

const LOG_LINES = 6;

/** What the user should know or do first: why the job failed or waits, or that a machine is held. */
export function JobNotice({ job, requests, onResume }: JobNoticeProps) {
  if (job.damaged !== null) {
    return (
      <Callout tone="bad">
        <b>The events of this job are damaged.</b> {job.damaged} The page shows what is still known.
      </Callout>
    );
  }
  if (job.status === "failed") return <FailureCard job={job} onResume={onResume} />;
  const held = job.attempts.at(-1)?.held_until ?? null;
  if (held !== null) return <HeldNotice job={job} until={held} requests={requests} />;
  const queued = job.phase === "provisioning" && job.reason !== ""; // in the queue of an engine, such as Slurm
  if (job.status === "queued" || queued) return <WaitingNotice job={job} />;
  return null;
}

function FailureCard({ job, onResume }: { job: Job; onResume: () => void }) {
  const { can } = useSession();
  const { failure } = job;
  const node = failedNode(job.attempts.at(-1));
  const lines = node === null ? job.recent_logs.slice(-LOG_LINES) : node.message.split("\n").filter(Boolean);
  return (
    <section className="panel failcard" role="alert" aria-label="Why the job failed">
      <div className="fh">
        <StatusIcon status="failed" phase="" />
        <div>
          <h2>{sentenceCase(failure?.message ?? "the job failed")}</h2>
          <p className="t2">
            {node !== null && `It failed on node ${node.node}${node.host === "" ? "" : ` (${node.host})`}. `}
            {failure === null ? "" : failureAdvice(failure)}
          </p>
        </div>
      </div>
      {lines.length > 0 && (
        <pre className="code ex" tabIndex={0}>
          {lines.join("\n")}
        </pre>
      )}
      <div className="row fa">
        <Link
          className="btn"
          to="."
          search={(old) => ({ ...old, tab: "log", log: undefined, line: undefined, node: node?.node })}
        >
          {node === null ? "Open the log" : `Open the log of node ${node.node}`}
        </Link>
        {can("write") && possibleActions(job).resume && (
          <Button icon="play" onClick={onResume}>
            Resume from a checkpoint
          </Button>
        )}
        {can("write") && (
          <Link className="btn quiet" to="/new" search={{ from: job.id }}>
            Clone with changes
          </Link>
        )}
        {failure !== null && <span className="tiny t3 mono push">{failure.code}</span>}
      </div>
    </section>
  );
}

interface HeldNoticeProps {
  job: Job;
  until: string;
  requests: JobRequests;
}

function HeldNotice({ job, until, requests }: HeldNoticeProps) {
  const now = useNow();
  const { can } = useSession();
  const left = (Date.parse(until) - now) / 1000;
  const price = job.place?.price_microusd_per_hour ?? 0;
  const release: ReactNode = can("write") ? (
    <Button disabled={requests.release.isPending} onClick={() => requests.release.mutate()}>
      Release the machine
    </Button>
  ) : undefined;
  return (
    <Callout tone="warn" actions={release}>
      <b>The script failed and its machine is held</b> until {shortTime(until, now)} ({formatDuration(left)})
      {price > 0 ? `, at ${formatMoney(price)} per hour` : ""}. Look at it with{" "}
      <code>anygpu ssh {job.id.slice(-8)}</code>.
    </Callout>
  );
}

function WaitingNotice({ job }: { job: Job }) {
  const now = useNow();
  const wait = job.queue_wait_s;
  const position = job.queue_position === null ? null : `It is number ${job.queue_position} in the queue`;
  const start =
    wait === null || wait < 1
      ? null
      : `starts in about ${formatDuration(wait)} (${shortTime(now + wait * 1000, now)})`;
  const rest = [position, start].filter(Boolean).join(" and ");
  return (
    <Callout>
      <b>{job.reason === "" ? "Offers are compared." : "The job waits."}</b> {job.reason}
      {job.reason !== "" && !job.reason.endsWith(".") && ". "}
      {rest === "" ? "" : ` ${rest}.`}
      {job.start_requested && " It starts before the other waiting jobs."}
    </Callout>
  );
}
