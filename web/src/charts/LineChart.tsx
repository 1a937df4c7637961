/** A chart with its header: name, value under the crosshair, and buttons. Only drawn while it is near the screen. */

import { useEffect, useEffectEvent, useRef, useState, type ReactNode } from "react";
import { ChartPlot, type TooltipPlace } from "@/charts/ChartPlot";
import { ChartTooltip, type TooltipContent } from "@/charts/ChartTooltip";
import type { Crosshair } from "@/charts/crosshair";
import type { HoveredPoint } from "@/charts/hover";
import type { PlotLayout, PlotModel } from "@/charts/plot-layout";
import { useNearScreen } from "@/charts/useNearScreen";
import { formatValue } from "@/lib/format";
import { Button } from "@/ui/Button";
import "@/charts/charts.css";

export interface ChartContent {
  model: Omit<PlotModel, "showAll">;
  state: "loading" | "ready" | "failed";
  /** The newest value, shown while nothing is pointed at. */
  newest: { value: number; color: string } | null;
  /** What the chart shows, in words, for screen readers. */
  description: string;
}

/** Where a chart reads its lines from. Must be the same object until its options change. */
export interface ChartSource {
  read: () => ChartContent;
  /** Call `listener` when the content changed. Returns a function that stops it. */
  subscribe: (listener: () => void) => () => void;
  retry: () => void;
  describePoint: (point: HoveredPoint) => TooltipContent;
}

interface LineChartProps {
  id: string;
  name: string;
  source: ChartSource;
  crosshair: Crosshair;
  onZoom: (from: number, to: number) => void;
  onResetZoom: () => void;
  zoomed: boolean;
  /** Several runs: the tooltip lists all of them. */
  listAll?: boolean;
  tall?: boolean;
  actions?: ReactNode;
}

interface HoverState {
  points: HoveredPoint[];
  current: HoveredPoint;
  place: TooltipPlace;
}

export function LineChart(props: LineChartProps) {
  const { id, name, source, crosshair, zoomed, listAll = false, tall = false, actions } = props;
  const figure = useRef<HTMLElement>(null);
  const readout = useRef<HTMLSpanElement>(null);
  const near = useNearScreen(figure);
  const [showAll, setShowAll] = useState(false);
  const [clipped, setClipped] = useState(false);
  const [state, setState] = useState<ChartContent["state"]>("loading");
  const [hover, setHover] = useState<HoverState | null>(null);
  const showReadout = (value: number | null, color: string) => {
    const element = readout.current;
    if (element === null) return;
    element.style.setProperty("--c", `var(${color})`);
    element.lastChild!.textContent = value === null ? "" : formatValue(value);
  };
  return (
    <figure ref={figure} className={tall ? "panel chart mc tall" : "panel chart mc"} data-metric={name}>
      <figcaption>
        <span className="name cut" title={name}>
          {name}
        </span>
        {(clipped || showAll) && (
          <Button look="quiet" className="tiny chart-note" onClick={() => setShowAll(!showAll)}>
            {showAll ? "Hide outliers" : "Show outliers"}
          </Button>
        )}
        <span className="val" ref={readout} hidden={listAll}>
          <i className="swatch" />
          <span />
        </span>
        {actions}
      </figcaption>
      <div className="plot-frame" aria-busy={near && state === "loading"}>
        {near && (
          <Plot
            {...{ id, source, crosshair, showAll, showReadout }}
            onZoom={props.onZoom}
            onResetZoom={props.onResetZoom}
            onDoubleClick={() => (zoomed ? props.onResetZoom() : setShowAll(!showAll))}
            onState={setState}
            onClipped={setClipped}
            onHover={setHover}
          />
        )}
        {state === "failed" && (
          <p className="plot-note">
            Not all points could be loaded. <Button onClick={source.retry}>Try again</Button>
          </p>
        )}
        {hover !== null && (
          <ChartTooltip
            place={hover.place}
            contents={(listAll ? hover.points : [hover.current]).map((point) => source.describePoint(point))}
            listAll={listAll}
          />
        )}
      </div>
    </figure>
  );
}

interface PlotProps {
  id: string;
  source: ChartSource;
  crosshair: Crosshair;
  showAll: boolean;
  showReadout: (value: number | null, color: string) => void;
  onZoom: (from: number, to: number) => void;
  onResetZoom: () => void;
  onDoubleClick: () => void;
  onState: (state: ChartContent["state"]) => void;
  onClipped: (clipped: boolean) => void;
  onHover: (hover: HoverState | null) => void;
}

/** The canvas. It is drawn without React; React only learns what changes the header. */
function Plot(props: PlotProps) {
  const { id, source, crosshair, showAll, onState, onClipped } = props;
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<ChartPlot | null>(null);
  const newest = useRef<ChartContent["newest"]>(null);

  const read = useEffectEvent((): PlotModel => {
    const content = source.read();
    newest.current = content.newest;
    if (host.current !== null) host.current.ariaLabel = content.description;
    onState(content.state);
    return { ...content.model, showAll };
  });
  const handleDraw = useEffectEvent((layout: PlotLayout) => {
    onClipped(layout.clipped);
    if (host.current !== null) host.current.dataset.points = String(layout.points);
  });
  const handleHover = useEffectEvent(
    (points: HoveredPoint[], current: HoveredPoint | null, place: TooltipPlace | null) => {
      const value = current === null ? newest.current?.value : current.stretch.smoothed[current.index];
      const color = current?.line.color ?? newest.current?.color ?? "--c1";
      props.showReadout(value ?? null, color);
      props.onHover(place !== null && current !== null ? { points, current, place } : null);
    },
  );
  const handleZoom = useEffectEvent(props.onZoom);
  const handleResetZoom = useEffectEvent(props.onResetZoom);
  const handleDoubleClick = useEffectEvent(props.onDoubleClick);

  useEffect(() => {
    const made = new ChartPlot(host.current!, id, crosshair, {
      read: () => read(),
      onDraw: (layout) => handleDraw(layout),
      onHover: (points, current, place) => handleHover(points, current, place),
      onZoom: (from, to) => handleZoom(from, to),
      onResetZoom: () => handleResetZoom(),
      onDoubleClick: () => handleDoubleClick(),
    });
    plot.current = made;
    return () => {
      plot.current = null;
      made.destroy();
    };
  }, [id, crosshair]);

  useEffect(() => {
    plot.current?.redraw();
    return source.subscribe(() => plot.current?.redraw());
  }, [source, showAll, id, crosshair]);

  return <div className="plot-host" ref={host} role="img" aria-label="Loading" tabIndex={0} />;
}
