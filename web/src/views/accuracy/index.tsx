import { useQuery } from "@tanstack/react-query";
import { api, unwrap, type Schemas } from "@/api/client";
import { PageTitle } from "@/app/TopBar";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { BasisPanel } from "@/views/accuracy/BasisPanel";
import { JobsPanel } from "@/views/accuracy/JobsPanel";
import { SummaryFigures } from "@/views/accuracy/SummaryFigures";
import "./accuracy.css";

const REFRESH_MS = 30_000;

/** How close predictions were to the results: `/accuracy`. */
export default function AccuracyPage() {
  const query = useQuery({
    queryKey: ["accuracy"],
    queryFn: () => unwrap(api.GET("/api/v1/accuracy")),
    refetchInterval: REFRESH_MS,
  });
  return (
    <>
      <PageTitle text="Accuracy" />
      {query.data !== undefined ? (
        <Report report={query.data} />
      ) : query.error === null ? (
        <Skeleton label="Loading the accuracy of predictions" />
      ) : (
        <ErrorState
          title="The accuracy could not be loaded"
          error={query.error}
          onRetry={() => void query.refetch()}
        />
      )}
    </>
  );
}

function Report({ report }: { report: Schemas["AccuracyReport"] }) {
  if (report.jobs === 0) {
    return (
      <EmptyState title="No predictions to compare yet" command="anygpu run train.py">
        anygpu predicts the time and cost of a job from its code, from past runs and from its first steps.
        Completed jobs appear here with their prediction and their result.
      </EmptyState>
    );
  }
  return (
    <>
      <SummaryFigures report={report} />
      <JobsPanel />
      <BasisPanel report={report} />
    </>
  );
}
