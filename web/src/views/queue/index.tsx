import { PageTitle } from "@/app/TopBar";
import { ErrorState, Skeleton } from "@/ui/states";
import { useQueue } from "@/views/queue/data";
import { RunningPanel } from "@/views/queue/RunningPanel";
import { SlotsPanel } from "@/views/queue/SlotsPanel";
import { WaitingPanel } from "@/views/queue/WaitingPanel";
import "./queue.css";

/** What waits and why, what runs, and what is free: `/queue`. */
export default function QueuePage() {
  const query = useQueue();
  return (
    <>
      <PageTitle text="Queue" />
      {query.data !== undefined ? (
        <>
          <WaitingPanel jobs={query.data.jobs} />
          <div className="queue-lower">
            <RunningPanel jobs={query.data.running} />
            <SlotsPanel slots={query.data.slots} />
          </div>
        </>
      ) : query.error === null ? (
        <Skeleton label="Loading the queue" />
      ) : (
        <ErrorState
          title="The queue could not be loaded"
          error={query.error}
          onRetry={() => void query.refetch()}
        />
      )}
    </>
  );
}
