import { memo } from "react";
import { LogPanel } from "@/log/LogPanel";
import { shownNode } from "@/log/nodes";
import { useLogAddress } from "@/log/useLogAddress";
import type { JobRequests } from "@/views/job/actions";
import { ArtifactsTab } from "@/views/job/tabs/ArtifactsTab";
import { CheckpointsTab } from "@/views/job/tabs/CheckpointsTab";
import { isSameRun, type Job } from "@/views/job/merge";
import { EventsTab } from "@/views/job/tabs/EventsTab";
import type { TabName } from "@/views/job/tabs/JobTabs";
import { MachinePanel } from "@/views/job/MachinePanel";
import { MetricsPanel } from "@/views/job/MetricsPanel";
import { PlanTab } from "@/views/job/tabs/PlanTab";
import { SpecTab } from "@/views/job/tabs/SpecTab";

interface TabContentProps {
  tab: TabName;
  job: Job;
  requests: JobRequests;
}

/** Curves of the metrics, then the log beside the machine. They follow the job themselves. */
const Overview = memo(
  ({ job }: { job: Job }) => {
    const { node } = useLogAddress();
    const shown = shownNode(job, null, node);
    return (
      <>
        <MetricsPanel job={job} />
        <div className="job-lower">
          <LogPanel job={job} />
          <MachinePanel key={shown} job={job} node={shown} />
        </div>
      </>
    );
  },
  (before, after) => isSameRun(before.job, after.job),
);
Overview.displayName = "Overview";

export function TabContent({ tab, job, requests }: TabContentProps) {
  switch (tab) {
    case "overview":
      return <Overview job={job} />;
    case "log":
      return <LogPanel job={job} full />;
    case "plan":
      return <PlanTab job={job} />;
    case "checkpoints":
      return <CheckpointsTab job={job} requests={requests} />;
    case "artifacts":
      return <ArtifactsTab job={job} />;
    case "events":
      return <EventsTab job={job} />;
    case "spec":
      return <SpecTab job={job} />;
  }
}
