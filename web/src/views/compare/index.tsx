/** Compare runs: their curves in one chart, their differences side by side, and a scatter plot. */

import { useMemo } from "react";
import { asProblem } from "@/api/client";
import { PageTitle } from "@/app/TopBar";
import { useChartView } from "@/charts/chart-view";
import { metricNames, useMetricsFeeds } from "@/charts/metrics-feed";
import { shownPins } from "@/charts/metric-groups";
import { usePins } from "@/charts/pins";
import { Button } from "@/ui/Button";
import { Callout, EmptyState, Skeleton } from "@/ui/states";
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
  const { runs, loading, failed } = useRuns(ids);
  const remove = (id: string) => setIds(ids.filter((each) => each !== id));
  return (
    <>
      <PageTitle text="Compare" />
      <div className="run-bar">
        <RunChips runs={runs} onRemove={remove} />
        <RunPicker ids={ids} onChange={setIds} />
      </div>
      {ids.length === 0 && (
        <EmptyState title="No runs chosen">
          Choose two or more runs above, or select jobs in the list of jobs with x and press c.
        </EmptyState>
      )}
      {failed.map(({ id, error }) => (
        <Callout key={id} tone="warn" actions={<Button onClick={() => remove(id)}>Remove it</Button>}>
          The run {id} could not be loaded: {asProblem(error).message}
        </Callout>
      ))}
      {runs.length === 0 && loading && <Skeleton label="Loading runs" />}
      {runs.length > 0 && <Comparison runs={runs} />}
    </>
  );
}

/** The runs that are compared. A click on its line shows or hides a run in the charts. */
function RunChips({ runs, onRemove }: { runs: readonly Run[]; onRemove: (id: string) => void }) {
  const [view, change] = useChartView();
  const toggle = (id: string) => {
    const hidden = new Set(view.hidden);
    const mark = isBeyondLimit(runs, id) ? `+${id}` : id;
    if (!hidden.delete(mark)) hidden.add(mark);
    change({ hidden });
  };
  return (
    <div className="run-chips">
      <RunKey runs={runs} shown={shownRuns(runs, view.hidden)} onToggle={toggle} onRemove={onRemove} />
      {runs.length > MAX_LINES && (
        <p className="t3 small">
          The charts show the first {MAX_LINES} runs. Click the line of another run to add it.
        </p>
      )}
    </div>
  );
}

function Comparison({ runs }: { runs: readonly Run[] }) {
  const [view, change] = useChartView();
  const feeds = useMetricsFeeds(runs.map((run) => ({ id: run.id, ended: isEnded(run.job.status) })));
  const names = useMemo(() => metricNames(feeds.values()), [feeds]);
  const ownPins = usePins();
  const pins = shownPins(names, view.pins ?? ownPins);
  const drawn = useMemo(() => {
    const shown = shownRuns(runs, view.hidden);
    return runs.filter((run) => shown.has(run.id));
  }, [runs, view.hidden]);
  const loading = runs.some((run) => (feeds.get(run.id)?.state ?? "loading") === "loading");
  return (
    <>
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
