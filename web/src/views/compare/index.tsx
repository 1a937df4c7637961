/** Compare runs: their curves in one chart, their differences side by side, and a scatter plot. */

import { useMemo } from "react";
import { PageTitle } from "@/app/TopBar";
import { useChartView } from "@/charts/chart-view";
import { metricNames, useMetricsFeeds } from "@/charts/metrics-feed";
import { shownPins } from "@/charts/metric-groups";
import { usePins } from "@/charts/pins";
import { Button } from "@/ui/Button";
import { Callout, EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { isEnded } from "@/ui/Status";
import { CompareCharts } from "@/views/compare/CompareCharts";
import { Differences } from "@/views/compare/Differences";
import { RunKey } from "@/views/compare/RunKey";
import { RunPicker } from "@/views/compare/RunPicker";
import { MAX_LINES, useRunIds, useRuns, type Run } from "@/views/compare/runs";
import { Scatter } from "@/views/compare/Scatter";
import "@/views/compare/compare.css";

/** With more runs, the table needs the whole width. */
const SIDE_BY_SIDE_RUNS = 4;

export default function ComparePage() {
  const [ids, setIds] = useRunIds();
  const { runs, loading, failed, retry } = useRuns(ids);
  if (ids.length === 0) {
    return (
      <>
        <PageTitle text="Compare" />
        <EmptyState title="No runs chosen" actions={<RunPicker ids={ids} onChange={setIds} />}>
          Choose two or more runs here, or select jobs in the list of jobs with x and press c.
        </EmptyState>
      </>
    );
  }
  const remove = (id: string) => setIds(ids.filter((each) => each !== id));
  return (
    <>
      <PageTitle text="Compare" />
      {failed.map(({ id, error }) =>
        runs.length === 0 && failed.length === 1 ? (
          <ErrorState key={id} title="The run could not be loaded" error={error} onRetry={retry} />
        ) : (
          <Callout key={id} tone="warn" actions={<Button onClick={() => remove(id)}>Remove it</Button>}>
            The run {id} could not be loaded: {error instanceof Error ? error.message : String(error)}
          </Callout>
        ),
      )}
      {runs.length === 0 && loading && <Skeleton label="Loading runs" />}
      {runs.length > 0 && <Comparison runs={runs} ids={ids} setIds={setIds} />}
    </>
  );
}

interface ComparisonProps {
  runs: readonly Run[];
  ids: readonly string[];
  setIds: (ids: readonly string[]) => void;
}

function Comparison({ runs, ids, setIds }: ComparisonProps) {
  const [view, change] = useChartView();
  const feeds = useMetricsFeeds(runs.map((run) => ({ id: run.id, ended: isEnded(run.job.status) })));
  const names = useMemo(() => metricNames(feeds.values()), [feeds]);
  const pins = shownPins(names, usePins());
  const shown = useMemo(() => shownRuns(runs, view.hidden), [runs, view.hidden]);
  const drawn = useMemo(() => runs.filter((run) => shown.has(run.id)), [runs, shown]);
  const loading = runs.some((run) => (feeds.get(run.id)?.state ?? "loading") === "loading");
  const toggle = (id: string) => {
    const hidden = new Set(view.hidden);
    const mark = isBeyondLimit(runs, id) ? `+${id}` : id;
    if (!hidden.delete(mark)) hidden.add(mark);
    change({ hidden });
  };
  return (
    <>
      <div className="row run-bar">
        <RunKey
          runs={runs}
          shown={shown}
          onToggle={toggle}
          onRemove={(id) => setIds(ids.filter((each) => each !== id))}
        />
        <RunPicker ids={ids} onChange={setIds} />
      </div>
      {runs.length > MAX_LINES && (
        <p className="t3 small">
          The charts show the first {MAX_LINES} runs. Click the line of another run to add it.
        </p>
      )}
      {names.length > 0 && <CompareCharts runs={drawn} {...{ feeds, names, pins, view, change }} />}
      {names.length === 0 &&
        (loading ? (
          <Skeleton label="Loading metrics" />
        ) : (
          <EmptyState small title="These runs have no metrics" />
        ))}
      <div className={runs.length > SIDE_BY_SIDE_RUNS ? "compare-lower stacked" : "compare-lower"}>
        <Differences runs={runs} feeds={feeds} />
        {names.length > 0 && <Scatter runs={runs} feeds={feeds} metrics={names} defaultMetric={pins[0]!} />}
      </div>
    </>
  );
}

function isBeyondLimit(runs: readonly Run[], id: string): boolean {
  return runs.findIndex((run) => run.id === id) >= MAX_LINES;
}

/** The first runs but the hidden ones; of the rest those that were asked for, marked with "+". */
function shownRuns(runs: readonly Run[], hidden: ReadonlySet<string>): ReadonlySet<string> {
  return new Set(
    runs
      .map((run) => run.id)
      .filter((id) => (isBeyondLimit(runs, id) ? hidden.has(`+${id}`) : !hidden.has(id))),
  );
}
