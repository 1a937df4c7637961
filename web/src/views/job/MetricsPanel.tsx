/** The curves of a job: a bar of options, and a chart for each metric of the chosen group. */

import { useMemo, useState } from "react";
import type { Schemas } from "@/api/client";
import { useShortcuts } from "@/app/shortcuts";
import { attemptLabel, epochSource } from "@/charts/attempt-source";
import { useChartView } from "@/charts/chart-view";
import {
  AxisPicker,
  GroupPicker,
  LineKey,
  LogScaleButton,
  MetricSearch,
  SmoothingSlider,
} from "@/charts/ChartBar";
import { Crosshair } from "@/charts/crosshair";
import { logScaleProblem } from "@/charts/limits";
import { attemptColor } from "@/charts/lines";
import { groupMetrics, shownMetrics, shownPins } from "@/charts/metric-groups";
import { metricNames, useMetricsFeeds } from "@/charts/metrics-feed";
import type { MetricsStore } from "@/charts/metrics-store";
import { usePins } from "@/charts/pins";
import { useCrosshairKeys } from "@/charts/useCrosshairKeys";
import { Button } from "@/ui/Button";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { isEnded } from "@/ui/Status";
import { EnlargedMetric, MetricChart } from "@/views/job/MetricChart";

export function MetricsPanel({ job }: { job: Schemas["JobDetails"] }) {
  const ended = isEnded(job.status);
  const feeds = useMetricsFeeds([{ id: job.id, ended }]);
  const names = useMemo(() => metricNames(feeds.values()), [feeds]);
  const feed = feeds.get(job.id);
  if (feed?.state === "failed") {
    return (
      <ErrorState title="The metrics could not be loaded" error={feed.error} onRetry={() => feed.retry()} />
    );
  }
  if (feed === undefined || feed.state === "loading") return <Skeleton label="Loading metrics" />;
  const { store } = feed;
  if (names.length === 0) {
    return (
      <EmptyState small title={ended ? "This job reported no metrics" : "No metrics yet"}>
        {'Print lines such as "loss=0.42", or call anygpu.log(loss=0.42, step=10) in your script.'}
      </EmptyState>
    );
  }
  return <MetricCharts job={job} store={store} names={names} />;
}

interface MetricChartsProps {
  job: Schemas["JobDetails"];
  store: MetricsStore;
  names: readonly string[];
}

function MetricCharts({ job, store, names }: MetricChartsProps) {
  const [view, change] = useChartView();
  const [crosshair] = useState(() => new Crosshair());
  const ownPins = usePins();
  const pins = shownPins(names, view.pins ?? ownPins);
  const groups = useMemo(() => groupMetrics(names), [names]);
  const epochs = useMemo(() => epochSource(job, names), [job, names]);
  const shown = useMemo(() => shownMetrics(view, names, groups, pins), [view, names, groups, pins]);
  const problem = shown.some((name) => logScaleProblem(store.summaries.get(name)?.min ?? null) === null)
    ? null
    : "No shown metric has only values above zero, which a logarithmic scale needs.";
  const lines = attemptLines(job);
  useCrosshairKeys(crosshair);
  useShortcuts([
    { keys: "l", label: "Logarithmic scale", group: "Job", run: () => change({ logScale: !view.logScale }) },
  ]);
  const chart = { store, view, change, crosshair, attempts: job.attempts, epochs, names, pins };
  return (
    <section className="metrics" aria-label="Metrics">
      <div className="mbar">
        <MetricSearch view={view} change={change} count={names.length} />
        {names.length > pins.length && (
          <GroupPicker view={view} change={change} groups={groups} pinned={pins.length} />
        )}
        <span className="push" />
        {view.zoom !== null && <Button onClick={() => change({ zoom: null })}>Reset zoom</Button>}
        {lines.length > 1 && <LineKey view={view} change={change} label="Attempts" lines={lines} />}
        <SmoothingSlider view={view} change={change} />
        <AxisPicker
          view={view}
          change={change}
          epochProblem={epochs === null ? "The script reports no epochs." : null}
        />
        <LogScaleButton view={view} change={change} problem={problem} />
      </div>
      {shown.length === 0 ? (
        <EmptyState
          small
          title={`No metric matches "${view.find}"`}
          actions={<Button onClick={() => change({ find: "" })}>Clear the search</Button>}
        />
      ) : (
        <div className="charts">
          {shown.map((name) => (
            <MetricChart key={name} name={name} {...chart} />
          ))}
        </div>
      )}
      {view.chart !== null && store.summaries.has(view.chart) && (
        <EnlargedMetric name={view.chart} {...chart} />
      )}
    </section>
  );
}

/** The attempts that trained. The others have no line in any chart. */
function attemptLines(job: Schemas["JobDetails"]) {
  return job.attempts
    .filter((attempt) => attempt.training_at !== null)
    .map(({ number }) => ({
      id: String(number),
      name: String(number),
      title: attemptLabel(number, job.attempts),
      color: attemptColor(number),
    }));
}
