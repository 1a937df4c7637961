/** One metric of a job as a chart, in the grid or enlarged. */

import { useMemo } from "react";
import { attemptSource, type AttemptFacts, type EpochSource } from "@/charts/attempt-source";
import type { ChartView } from "@/charts/chart-view";
import { ChartDialog } from "@/charts/ChartDialog";
import type { Crosshair } from "@/charts/crosshair";
import { LineChart } from "@/charts/LineChart";
import type { MetricsStore } from "@/charts/metrics-store";
import { setPins } from "@/charts/pins";
import { IconButton } from "@/ui/Button";

interface MetricChartProps {
  name: string;
  store: MetricsStore;
  view: ChartView;
  change: (part: Partial<ChartView>) => void;
  crosshair: Crosshair;
  attempts: readonly AttemptFacts[];
  epochs: EpochSource;
  /** All metrics of the job. */
  names: readonly string[];
  pins: readonly string[];
}

function useAttemptSource({ store, name, view, attempts, epochs }: MetricChartProps) {
  const { axis, smoothing, logScale, zoom, hidden } = view;
  const facts = JSON.stringify(
    attempts.map(({ number, backend, resume_step }) => ({ number, backend, resume_step })),
  );
  return useMemo(
    () =>
      attemptSource({
        store,
        name,
        view: { axis, smoothing, logScale, zoom, hidden },
        attempts: JSON.parse(facts) as AttemptFacts[],
        epochs,
      }),
    [store, name, axis, smoothing, logScale, zoom, hidden, facts, epochs],
  );
}

export function MetricChart(props: MetricChartProps) {
  const { name, names, change, view, crosshair, pins } = props;
  const source = useAttemptSource(props);
  const pinned = pins.includes(name);
  return (
    <LineChart
      id={name}
      name={name}
      source={source}
      crosshair={crosshair}
      zoomed={view.zoom !== null}
      onZoom={(from, to) => change({ zoom: [from, to] })}
      onResetZoom={() => change({ zoom: null })}
      actions={
        <>
          <IconButton
            mini
            className={pinned ? "pin pinned" : "pin"}
            icon="pin"
            label={pinned ? `Unpin ${name}` : `Pin ${name}`}
            aria-pressed={pinned}
            onClick={() => {
              const next = pinned ? pins.filter((each) => each !== name) : [...pins, name];
              setPins(names, next);
              change({ pins: next });
            }}
          />
          <IconButton mini icon="expand" label={`Enlarge ${name}`} onClick={() => change({ chart: name })} />
        </>
      }
    />
  );
}

export function EnlargedMetric(props: MetricChartProps) {
  const { name, change, view, crosshair } = props;
  const source = useAttemptSource(props);
  return (
    <ChartDialog name={name} lineTitle="Attempt" source={source} onClose={() => change({ chart: null })}>
      <LineChart
        tall
        id={`${name} enlarged`}
        name={name}
        source={source}
        crosshair={crosshair}
        zoomed={view.zoom !== null}
        onZoom={(from, to) => change({ zoom: [from, to] })}
        onResetZoom={() => change({ zoom: null })}
      />
    </ChartDialog>
  );
}
