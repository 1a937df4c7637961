/** Zooming and panning a chart with two fingers. One finger moves the crosshair and scrolls the page, as before. */

import { pinch, type Range } from "@/charts/zoom";

interface TouchZoomEvents {
  /** What the chart shows now, and the whole axis, if they are known. */
  range: () => Range | null;
  whole: () => Range | null;
  /** The fingers moved: draw again with `shownRange`. */
  onMove: () => void;
  /** The fingers were lifted. Null: everything is shown. */
  onEnd: (range: Range | null) => void;
}

interface Gesture {
  range: Range;
  whole: Range | null;
  fingers: readonly [number, number];
  result: Range | null;
}

export class TouchZoom {
  private gesture: Gesture | null = null;
  /** Drawn instead of the zoom of the chart, until that has changed after the gesture. */
  private preview: Range | null = null;
  private zoomBefore: Range | null = null;

  constructor(private readonly events: TouchZoomEvents) {}

  get isActive(): boolean {
    return this.gesture !== null;
  }

  listen(over: HTMLElement): void {
    // Not passive: while two fingers are on the chart, the browser must neither scroll nor zoom the page.
    over.addEventListener("touchstart", (event) => this.handleStart(event, over), { passive: false });
    over.addEventListener("touchmove", (event) => this.handleMove(event, over), { passive: false });
    for (const name of ["touchend", "touchcancel"] as const) {
      over.addEventListener(name, (event) => this.handleEnd(event));
    }
  }

  /** The range to draw instead of the zoom of the chart; null if there is none. */
  shownRange(zoom: Range | null): Range | null {
    if (this.gesture !== null) this.zoomBefore = zoom;
    else if (!isSame(zoom, this.zoomBefore)) this.preview = null;
    return this.preview;
  }

  private handleStart(event: TouchEvent, over: HTMLElement): void {
    const range = this.events.range();
    if (event.touches.length !== 2 || range === null) return;
    event.preventDefault();
    this.gesture = { range, whole: this.events.whole(), fingers: fingersOf(event, over), result: range };
  }

  private handleMove(event: TouchEvent, over: HTMLElement): void {
    if (this.gesture === null || event.touches.length !== 2) return;
    event.preventDefault();
    const { range, whole, fingers } = this.gesture;
    this.gesture.result = pinch(range, fingers, fingersOf(event, over), whole);
    this.preview = this.gesture.result ?? whole;
    this.events.onMove();
  }

  private handleEnd(event: TouchEvent): void {
    if (this.gesture === null || event.touches.length > 1) return;
    const { range, result } = this.gesture;
    this.gesture = null;
    if (result === null && this.zoomBefore === null) this.preview = null;
    if (!isSame(result, range)) this.events.onEnd(result);
    this.events.onMove();
  }
}

/** The places of two fingers as fractions of the width of the chart. */
function fingersOf(event: TouchEvent, over: HTMLElement): [number, number] {
  const { left, width } = over.getBoundingClientRect();
  const [first, second] = [...event.touches].map((touch) => (touch.clientX - left) / width);
  return [first!, second!];
}

function isSame(one: Range | null, other: Range | null): boolean {
  return one?.[0] === other?.[0] && one?.[1] === other?.[1];
}
