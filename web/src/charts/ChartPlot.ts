/** A chart on a canvas: draws lines with uPlot, and adds crosshair, zoom by dragging and marks. */

import "@/charts/browser-language";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { onColorsChange, tokenColor } from "@/app/theme";
import { isolatedIndices } from "@/charts/align";
import type { Crosshair, CrosshairPosition } from "@/charts/crosshair";
import { currentPoint, neighbourPosition, pointsAt, type HoveredPoint } from "@/charts/hover";
import { layoutPlot, type PlotLayout, type PlotModel, type StrokeStyle } from "@/charts/plot-layout";
import { redraws } from "@/charts/scheduler";
import { TouchZoom } from "@/charts/touch-zoom";
import { formatElapsedTick, formatTick, formatTimeTick } from "@/charts/ticks";
import { ZOOM_STEP, zoomAround, type Range } from "@/charts/zoom";

export interface PlotEvents {
  /** Read the newest model. Called when the chart is drawn. */
  read: () => PlotModel;
  /** A part of the horizontal axis was chosen by dragging. */
  onZoom: (from: number, to: number) => void;
  onResetZoom: () => void;
  onDoubleClick: () => void;
  /** The points under the crosshair. `place` is where the tooltip goes; null if another chart is pointed at. */
  onHover: (points: HoveredPoint[], current: HoveredPoint | null, place: TooltipPlace | null) => void;
  onDraw: (layout: PlotLayout) => void;
}

/** The crosshair in the chart: pixels from its left edge, and fraction of the plot's width. */
export interface TooltipPlace {
  left: number;
  fraction: number;
}

const X_AXIS_HEIGHT = 24;
const Y_AXIS_MIN_WIDTH = 36;
const CHARACTER_WIDTH = 6.2;
const MIN_DRAG_PIXELS = 6;
const HOVER_TOLERANCE_PIXELS = 24;
const MARK_SIZE = 4;

export class ChartPlot {
  private plot: uPlot | null = null;
  private signature = "";
  private model: PlotModel | null = null;
  private layout: PlotLayout | null = null;
  private readonly colors = new Map<string, string>();
  private readonly cross = element("cross");
  private readonly selection = element("zoom-selection");
  private readonly dots: HTMLElement[] = [];
  private readonly cleanups: (() => void)[] = [];
  private dragStart: number | null = null;
  private size = { width: 0, height: 0 };
  private pointerPlace = "";
  private current: HoveredPoint | null = null;
  private lastWhole: Range | null = null;
  /** A zoom that is not drawn yet, from which the next key continues. */
  private pendingZoom: Range | null = null;
  private readonly touch: TouchZoom;
  private readonly keys = {
    step: (direction: number) => this.step(direction),
    zoom: (direction: number) => this.zoom(direction),
  };

  constructor(
    private readonly host: HTMLElement,
    private readonly id: string,
    private readonly crosshair: Crosshair,
    private readonly events: PlotEvents,
  ) {
    // The observer says the size without a forced layout.
    const observer = new ResizeObserver((entries) => {
      const box = entries.at(-1)!.contentRect;
      this.size = { width: Math.floor(box.width), height: Math.floor(box.height) };
      this.redraw();
    });
    observer.observe(host);
    this.cleanups.push(
      () => observer.disconnect(),
      onColorsChange(() => this.recolor()),
      crosshair.subscribe((position) => this.showCrosshair(position)),
    );
    this.listenForKeys();
    this.touch = new TouchZoom({
      range: () => this.shownRange(),
      whole: () => this.whole(),
      onMove: () => {
        this.crosshair.set(null);
        this.redraw();
      },
      onEnd: (range) => this.applyZoom(range),
    });
  }

  /** Draw again in one of the next animation frames. */
  redraw(): void {
    redraws.schedule(this.draw);
  }

  destroy(): void {
    redraws.cancel(this.draw);
    this.crosshair.clearKeys(this.keys);
    for (const cleanup of this.cleanups) cleanup();
    this.plot?.destroy();
    this.plot = null;
  }

  private readonly draw = (): void => {
    const { width, height } = this.size;
    if (width === 0 || height === 0) return;
    const model = this.events.read();
    const zoom = this.touch.shownRange(model.zoom);
    this.model = zoom === null ? model : { ...model, zoom };
    this.layout = layoutPlot(this.model, width, height);
    this.pendingZoom = null;
    if (this.model.zoom === null && this.layout.points > 0) this.lastWhole = this.layout.xRange;
    const signature = JSON.stringify([this.layout.strokes, this.model.logScale]);
    if (this.plot === null || signature !== this.signature) {
      this.signature = signature;
      this.build(width, height);
    } else {
      if (this.plot.width !== width || this.plot.height !== height) this.plot.setSize({ width, height });
      this.plot.setData(this.layout.table as uPlot.AlignedData, true);
    }
    this.events.onDraw(this.layout);
    this.showCrosshair(this.crosshair.position);
  };

  private recolor(): void {
    this.colors.clear();
    this.signature = "";
    this.redraw();
  }

  private color(token: string): string {
    let color = this.colors.get(token);
    if (color === undefined) this.colors.set(token, (color = tokenColor(token)));
    return color;
  }

  private build(width: number, height: number): void {
    this.plot?.destroy();
    this.plot = new uPlot(this.options(width, height), this.layout!.table as uPlot.AlignedData, this.host);
    this.plot.over.append(this.selection, this.cross);
    this.dots.length = 0;
    this.listenForPointer(this.plot.over);
  }

  private options(width: number, height: number): uPlot.Options {
    return {
      width,
      height,
      legend: { show: false },
      cursor: { show: false },
      padding: [MARK_SIZE + 2, 8, 0, 0],
      scales: {
        x: { time: false, range: () => this.layout!.xRange },
        y: { distr: this.model!.logScale ? 3 : 1, range: () => this.layout!.yRange },
      },
      axes: [this.horizontalAxis(), this.verticalAxis()],
      series: [{}, ...this.layout!.strokes.map((stroke) => this.series(stroke))],
      hooks: { drawAxes: [(plot) => this.drawChanges(plot)], draw: [(plot) => this.drawMarks(plot)] },
    };
  }

  private horizontalAxis(): uPlot.Axis {
    return {
      ...this.axisLook(),
      size: X_AXIS_HEIGHT,
      grid: { show: false },
      border: { show: true, stroke: this.color("--line-strong"), width: 1 },
      splits: () => this.layout!.xTicks,
      values: (_plot, ticks) => ticks.map((tick) => this.horizontalText(tick)),
    };
  }

  private horizontalText(tick: number): string {
    const [low, high] = this.layout!.xRange;
    if (this.model!.axis === "time") return formatTimeTick(tick, high - low);
    if (this.model!.axis === "elapsed") return formatElapsedTick(tick);
    return formatTick(tick, this.layout!.xTicks.at(-1) ?? tick);
  }

  private verticalAxis(): uPlot.Axis {
    const text = (tick: number) =>
      formatTick(tick, this.model!.logScale ? tick : Math.max(...this.layout!.yTicks.map(Math.abs)));
    return {
      ...this.axisLook(),
      size: (_plot, values) => {
        const longest = Math.max(0, ...(values ?? []).map((value) => value.length));
        return Math.max(Y_AXIS_MIN_WIDTH, longest * CHARACTER_WIDTH + 12);
      },
      grid: { show: true, stroke: this.color("--grid"), width: 1 },
      splits: () => this.layout!.yTicks,
      values: (_plot, ticks) => ticks.map(text),
      filter: (_plot, ticks) => ticks,
    };
  }

  private axisLook(): uPlot.Axis {
    const family = getComputedStyle(document.body).fontFamily;
    return { stroke: this.color("--axis"), font: `11px ${family}`, ticks: { show: false }, gap: 6 };
  }

  private series(stroke: StrokeStyle): uPlot.Series {
    return {
      stroke: this.color(stroke.color),
      width: stroke.width,
      alpha: stroke.alpha,
      dash: [...stroke.dash],
      pxAlign: 0,
      points: {
        show: true,
        size: stroke.width * 2.5,
        fill: this.color(stroke.color),
        filter: (plot, index) => isolatedIndices(plot.data[index] as (number | null | undefined)[]),
      },
    };
  }

  /** A dashed vertical line where the machine changed. */
  private drawChanges(plot: uPlot): void {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = this.color("--line-control");
    ctx.globalAlpha = 0.55;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const change of this.model!.changes) {
      const x = plot.valToPos(change, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  /** A small triangle at the top edge for each NaN and infinity. */
  private drawMarks(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const size = MARK_SIZE * devicePixelRatio;
    let previous = -Infinity;
    ctx.save();
    for (const mark of this.layout!.marks) {
      const x = plot.valToPos(mark.x, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width || Math.abs(x - previous) < 1) continue;
      previous = x;
      ctx.fillStyle = this.color(mark.color);
      ctx.beginPath();
      ctx.moveTo(x - size, bbox.top - size);
      ctx.lineTo(x + size, bbox.top - size);
      ctx.lineTo(x, bbox.top + size / 2);
      ctx.fill();
    }
    ctx.restore();
  }

  private listenForPointer(over: HTMLElement): void {
    over.addEventListener("pointermove", (event) => this.handleMove(event));
    over.addEventListener("pointerleave", () => this.handleLeave());
    over.addEventListener("pointerdown", (event) => this.handleDown(event));
    over.addEventListener("pointerup", (event) => this.handleUp(event));
    over.addEventListener("pointercancel", () => this.endDrag());
    this.touch.listen(over);
    over.addEventListener("dblclick", () => this.events.onDoubleClick());
  }

  private listenForKeys(): void {
    const focus = () => this.crosshair.setKeys(this.keys);
    const blur = () => this.crosshair.set(null);
    this.host.addEventListener("focus", focus);
    this.host.addEventListener("blur", blur);
    this.cleanups.push(() => {
      this.host.removeEventListener("focus", focus);
      this.host.removeEventListener("blur", blur);
    });
  }

  private step(direction: number): void {
    if (this.model === null) return;
    // From the point that is named, which the pointer is near to but not at.
    const from = this.current?.x ?? this.crosshair.position?.x ?? null;
    const x = neighbourPosition(this.model.lines, from, direction);
    if (x !== null) this.crosshair.set({ x, source: this.id });
  }

  /** Zoom around the crosshair, or around the middle if it is somewhere else. */
  private zoom(direction: number): void {
    if (direction === 0) return this.applyZoom(null);
    const range = this.pendingZoom ?? this.shownRange();
    if (range === null) return;
    const [low, high] = range;
    const at = this.crosshair.position?.x ?? NaN;
    const x = at >= low && at <= high ? at : (low + high) / 2;
    const factor = direction > 0 ? 1 / ZOOM_STEP : ZOOM_STEP;
    this.applyZoom(zoomAround(range, x, factor, this.whole()));
  }

  private applyZoom(range: Range | null): void {
    this.pendingZoom = range ?? this.whole();
    if (range !== null) this.events.onZoom(range[0], range[1]);
    else if (this.model?.zoom) this.events.onResetZoom();
  }

  /** What the chart shows; null while it has no points, as there is nothing to zoom into. */
  private shownRange(): Range | null {
    if (this.layout === null || (this.layout.points === 0 && this.whole() === null)) return null;
    return this.layout.xRange;
  }

  private whole(): Range | null {
    return this.model?.whole ?? this.lastWhole;
  }

  private positionOf(event: PointerEvent): number {
    const { left, width } = this.plot!.over.getBoundingClientRect();
    return Math.min(width, Math.max(0, event.clientX - left));
  }

  private handleMove(event: PointerEvent): void {
    // A changed page makes the browser report the pointer again, which must not undo a move by keys.
    const place = `${event.clientX} ${event.clientY}`;
    if (place === this.pointerPlace) return;
    this.pointerPlace = place;
    if (this.touch.isActive) return;
    const pixel = this.positionOf(event);
    this.crosshair.setKeys(this.keys);
    this.crosshair.set({ x: this.plot!.posToVal(pixel, "x"), source: this.id });
    if (this.dragStart === null) return;
    this.selection.style.left = `${Math.min(pixel, this.dragStart)}px`;
    this.selection.style.width = `${Math.abs(pixel - this.dragStart)}px`;
    this.selection.hidden = Math.abs(pixel - this.dragStart) < MIN_DRAG_PIXELS;
  }

  private handleLeave(): void {
    this.pointerPlace = "";
    if (this.dragStart === null) this.crosshair.set(null);
  }

  private handleDown(event: PointerEvent): void {
    if (event.pointerType !== "mouse" || event.button !== 0 || this.shownRange() === null) return;
    this.plot!.over.setPointerCapture(event.pointerId);
    this.dragStart = this.positionOf(event);
  }

  private handleUp(event: PointerEvent): void {
    const start = this.dragStart;
    this.endDrag();
    if (start === null) return;
    const end = this.positionOf(event);
    if (Math.abs(end - start) < MIN_DRAG_PIXELS) return;
    const [from, to] = [start, end].sort((a, b) => a - b).map((pixel) => this.plot!.posToVal(pixel, "x"));
    this.events.onZoom(from!, to!);
  }

  private endDrag(): void {
    this.dragStart = null;
    this.selection.hidden = true;
  }

  private showCrosshair(position: CrosshairPosition | null): void {
    if (this.plot === null || this.model === null) return;
    const inside =
      position !== null && position.x >= this.layout!.xRange[0] && position.x <= this.layout!.xRange[1];
    this.cross.hidden = !inside;
    if (!inside) {
      for (const dot of this.dots) dot.hidden = true;
      this.current = null;
      this.events.onHover([], null, null);
      return;
    }
    const tolerance = this.plot.posToVal(HOVER_TOLERANCE_PIXELS, "x") - this.plot.posToVal(0, "x");
    const points = pointsAt(this.model.lines, position.x, tolerance);
    const left = this.plot.valToPos(position.x, "x");
    this.cross.style.transform = `translateX(${left.toFixed(1)}px)`;
    this.placeDots(points);
    const { bbox } = this.plot;
    const place = {
      left: bbox.left / devicePixelRatio + left,
      fraction: (left * devicePixelRatio) / bbox.width,
    };
    this.current = currentPoint(points);
    this.events.onHover(points, this.current, position.source === this.id ? place : null);
  }

  private placeDots(points: readonly HoveredPoint[]): void {
    while (this.dots.length < points.length) {
      const dot = element("pt");
      this.dots.push(dot);
      this.plot!.over.append(dot);
    }
    this.dots.forEach((dot, place) => {
      const point = points[place];
      const value =
        point && (this.model!.smoothing ? point.stretch.smoothed : point.stretch.values)[point.index]!;
      const [low, high] = this.layout!.yRange;
      dot.hidden = value === undefined || !(value >= low && value <= high);
      if (dot.hidden) return;
      dot.style.setProperty("--c", `var(${point!.line.color})`);
      dot.style.left = `${this.plot!.valToPos(point!.x, "x").toFixed(1)}px`;
      dot.style.top = `${this.plot!.valToPos(value!, "y").toFixed(1)}px`;
    });
  }
}

function element(className: string): HTMLElement {
  const made = document.createElement("div");
  made.className = className;
  made.hidden = true;
  return made;
}
