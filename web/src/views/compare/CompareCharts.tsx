/** The charts of the compared runs, with the bar of options. */

import { useMemo, useState } from "react";
import { useShortcuts } from "@/app/shortcuts";
import { epochSource } from "@/charts/attempt-source";
import type { ChartView } from "@/charts/chart-view";
import { AxisPicker, GroupPicker, LogScaleButton, MetricSearch, SmoothingSlider } from "@/charts/ChartBar";
import { ChartDialog } from "@/charts/ChartDialog";
import { Crosshair } from "@/charts/crosshair";
import { LineChart } from "@/charts/LineChart";
import { groupMetrics, shownMetrics } from "@/charts/metric-groups";
import type { MetricsFeed } from "@/charts/metrics-feed";
import { useCrosshairKeys } from "@/charts/useCrosshairKeys";
import { Button, IconButton } from "@/ui/Button";
import { EmptyState } from "@/ui/states";
import { runSource } from "@/views/compare/run-source";
import type { Run } from "@/views/compare/runs";

interface CompareChartsProps {
  runs: readonly Run[];
  feeds: ReadonlyMap<string, MetricsFeed>;
  names: readonly string[];
  pins: readonly string[];
  view: ChartView;
  change: (part: Partial<ChartView>) => void;
}

export function CompareCharts(props: CompareChartsProps) {
  const { runs, feeds, names, pins, view, change } = props;
  const [crosshair] = useState(() => new Crosshair());
  const groups = useMemo(() => groupMetrics(names), [names]);
  const shown = shownMetrics(view, names, groups, pins);
  const lowest = (name: string) =>
    Math.min(...runs.map((run) => feeds.get(run.id)?.store.summaries.get(name)?.min ?? Infinity));
  const noLog = shown.every((name) => !(lowest(name) > 0));
  const hasEpochs = runs.some((run) => epochSource(run.job, names) !== null);
  useCrosshairKeys(crosshair);
  useShortcuts([
    {
      keys: "l",
      label: "Logarithmic scale",
      group: "Compare",
      run: () => change({ logScale: !view.logScale }),
    },
  ]);
  const chart = { runs, feeds, view, change, crosshair };
  return (
    <section className="metrics" aria-label="Curves">
      <div className="mbar">
        <MetricSearch view={view} change={change} count={names.length} />
        {names.length > pins.length && (
          <GroupPicker view={view} change={change} groups={groups} pinned={pins.length} />
        )}
        <span className="push" />
        {view.zoom !== null && <Button onClick={() => change({ zoom: null })}>Reset zoom</Button>}
        <SmoothingSlider view={view} change={change} />
        <AxisPicker
          view={view}
          change={change}
          epochProblem={hasEpochs ? null : "The scripts of these runs report no epochs."}
        />
        <LogScaleButton
          view={view}
          change={change}
          problem={
            noLog ? "No shown metric has only values above zero, which a logarithmic scale needs." : null
          }
        />
      </div>
      {shown.length === 0 && (
        <EmptyState
          small
          title={`No metric matches "${view.find}"`}
          actions={<Button onClick={() => change({ find: "" })}>Clear the search</Button>}
        />
      )}
      <div className="charts">
        {shown.map((name) => (
          <RunChart key={name} name={name} {...chart} />
        ))}
      </div>
      {view.chart !== null && names.includes(view.chart) && (
        <RunChart enlarged name={view.chart} {...chart} />
      )}
    </section>
  );
}

interface RunChartProps extends Omit<CompareChartsProps, "names" | "pins"> {
  name: string;
  crosshair: Crosshair;
  enlarged?: boolean;
}

function RunChart({ name, runs, feeds, view, change, crosshair, enlarged = false }: RunChartProps) {
  const { axis, smoothing, logScale, zoom } = view;
  const source = useMemo(
    () => runSource({ name, runs, feeds, view: { axis, smoothing, logScale, zoom } }),
    [name, runs, feeds, axis, smoothing, logScale, zoom],
  );
  const chart = (
    <LineChart
      listAll
      tall={enlarged}
      id={enlarged ? `${name} enlarged` : name}
      name={name}
      source={source}
      crosshair={crosshair}
      zoomed={zoom !== null}
      onZoom={(from, to) => change({ zoom: [from, to] })}
      onResetZoom={() => change({ zoom: null })}
      actions={
        !enlarged && (
          <IconButton mini icon="expand" label={`Enlarge ${name}`} onClick={() => change({ chart: name })} />
        )
      }
    />
  );
  if (!enlarged) return chart;
  return (
    <ChartDialog name={name} lineTitle="Run" source={source} onClose={() => change({ chart: null })}>
      {chart}
    </ChartDialog>
  );
}
