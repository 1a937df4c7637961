import { Link } from "@tanstack/react-router";
import { formatCount } from "@/lib/format";
import type { Job } from "@/views/job/merge";

export const TABS = ["overview", "log", "plan", "checkpoints", "artifacts", "events", "spec"] as const;
export type TabName = (typeof TABS)[number];

const LABELS: Record<TabName, string> = {
  overview: "Overview",
  log: "Log",
  plan: "Plan",
  checkpoints: "Checkpoints",
  artifacts: "Artifacts",
  events: "Events",
  spec: "Spec",
};

export function isTab(value: unknown): value is TabName {
  return TABS.includes(value as TabName);
}

interface JobTabsProps {
  chosen: TabName;
  job: Job;
  events: number | null;
}

/** The tabs of the page. The chosen one is in the address. */
export function JobTabs({ chosen, job, events }: JobTabsProps) {
  const counts: Partial<Record<TabName, number>> = {
    checkpoints: job.attempts.reduce((total, each) => total + each.checkpoints_saved, 0),
    artifacts: job.artifacts,
    events: events ?? undefined,
  };
  return (
    <nav className="tabs jobtabs" aria-label="Job">
      {TABS.map((tab) => (
        <Link
          key={tab}
          to="."
          search={(old) => ({ ...old, tab: tab === "overview" ? undefined : tab })}
          resetScroll={false}
          activeOptions={{ exact: true, includeSearch: true }}
          aria-current={tab === chosen ? "page" : undefined}
        >
          {LABELS[tab]}
          {counts[tab] !== undefined && counts[tab] > 0 && (
            <span className="n">{formatCount(counts[tab])}</span>
          )}
        </Link>
      ))}
    </nav>
  );
}
