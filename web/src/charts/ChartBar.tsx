/** The bar above charts: search, groups, lines, smoothing, horizontal axis, logarithmic scale. */

import { type CSSProperties } from "react";
import type { ChartView } from "@/charts/chart-view";
import type { HorizontalAxis } from "@/charts/lines";
import { PINNED_GROUP, type MetricGroup } from "@/charts/metric-groups";
import { plural, sentenceCase } from "@/lib/format";
import { useDelayedWrite } from "@/lib/useDelayedWrite";
import { Button } from "@/ui/Button";
import { Segmented, Slider, TextField } from "@/ui/controls";
import { Icon } from "@/ui/Icon";
import { Menu } from "@/ui/Menu";

interface ViewProps {
  view: ChartView;
  change: (part: Partial<ChartView>) => void;
}

export function MetricSearch({ view, change, count }: ViewProps & { count: number }) {
  const [find, setFind] = useDelayedWrite(view.find, (value) => change({ find: value }));
  return (
    <TextField
      className="msearch"
      label="Search metrics"
      type="search"
      icon="search"
      placeholder={`Search ${plural(count, "metric")}`}
      value={find}
      onChange={setFind}
    />
  );
}

const SHOWN_GROUPS = 5;

interface GroupPickerProps extends ViewProps {
  groups: readonly MetricGroup[];
  pinned: number;
}

export function GroupPicker({ view, change, groups, pinned }: GroupPickerProps) {
  const choices = [
    { value: PINNED_GROUP, label: "Pinned", count: pinned },
    ...groups.map((group) => ({ value: group.name, label: group.name, count: group.metrics.length })),
  ];
  const limit = choices.length <= SHOWN_GROUPS + 1 ? choices.length : SHOWN_GROUPS;
  const shown = choices.slice(0, limit);
  const more = choices.slice(limit);
  const chosen = more.find((choice) => choice.value === view.group);
  const value = view.find === "" ? view.group : "";
  const choose = (group: string) => change({ group, find: "" });
  return (
    <span className="row">
      <Segmented
        label="Group"
        value={value}
        choices={chosen === undefined ? shown : [...shown, chosen]}
        onChange={choose}
      />
      {more.length > 0 && (
        <Menu
          align="start"
          trigger={
            <Button look="quiet">
              {more.length} more <Icon name="chevronDown" size={12} />
            </Button>
          }
          items={more.map(({ value: group, label, count }) => ({
            label,
            detail: String(count),
            onSelect: () => choose(group),
          }))}
        />
      )}
    </span>
  );
}

interface LineKeyProps extends ViewProps {
  label: string;
  lines: readonly { id: string; name: string; title: string; color: string }[];
}

/** The lines with their colours. A click hides a line or shows it again. */
export function LineKey({ view, change, lines, label }: LineKeyProps) {
  const toggle = (id: string) => {
    const hidden = new Set(view.hidden);
    if (!hidden.delete(id)) hidden.add(id);
    change({ hidden });
  };
  return (
    <span className="attkey" role="group" aria-label={label}>
      {lines.map(({ id, name, title, color }) => (
        <button
          key={id}
          type="button"
          aria-pressed={!view.hidden.has(id)}
          title={title}
          onClick={() => toggle(id)}
        >
          <i className="swatch" style={{ "--c": `var(${color})` } as CSSProperties} />
          {name}
        </button>
      ))}
    </span>
  );
}

export function SmoothingSlider({ view, change }: ViewProps) {
  const [smoothing, setSmoothing] = useDelayedWrite(view.smoothing, (value) => change({ smoothing: value }));
  return (
    <label className="smooth">
      <span>Smoothing</span>
      <Slider
        min={0}
        max={99}
        value={Math.round(smoothing * 100)}
        onChange={(percent) => setSmoothing(percent / 100)}
      />
      <output>{smoothing.toFixed(2)}</output>
    </label>
  );
}

interface AxisPickerProps extends ViewProps {
  /** Why epochs cannot be shown; null if they can. */
  epochProblem: string | null;
}

export function AxisPicker({ view, change, epochProblem }: AxisPickerProps) {
  const axes: HorizontalAxis[] = ["step", "epoch", "time"];
  return (
    <span className="seg" role="group" aria-label="Horizontal axis">
      {axes.map((axis) => {
        const problem = axis === "epoch" ? epochProblem : null;
        return (
          <button
            key={axis}
            type="button"
            aria-pressed={view.axis === axis}
            aria-disabled={problem !== null}
            title={problem ?? undefined}
            onClick={() => problem === null && change({ axis, zoom: null })}
          >
            {sentenceCase(axis)}
          </button>
        );
      })}
    </span>
  );
}

/** The button for the logarithmic scale. `problem` says why it is not possible. */
export function LogScaleButton({ view, change, problem }: ViewProps & { problem: string | null }) {
  return (
    <Button
      aria-pressed={view.logScale && problem === null}
      aria-disabled={problem !== null}
      title={problem ?? "Logarithmic vertical axis (l)"}
      onClick={() => problem === null && change({ logScale: !view.logScale })}
    >
      Log scale
    </Button>
  );
}
