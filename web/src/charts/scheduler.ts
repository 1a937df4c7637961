/**
 * Run redraws in animation frames: each at most 20 times a second, and only as many in one frame as fit into a short
 * time, so that the page stays responsive. Hidden tabs get no animation frames and so draw nothing.
 */

export const REDRAW_INTERVAL_MS = 50;
const FRAME_BUDGET_MS = 8;

export interface FrameClock {
  now: () => number;
  requestFrame: (run: () => void) => void;
}

const browserClock: FrameClock = {
  now: () => performance.now(),
  requestFrame: (run) => void requestAnimationFrame(run),
};

export class RedrawScheduler {
  private readonly waiting = new Set<() => void>();
  private readonly drawnAt = new WeakMap<() => void, number>();
  private frameRequested = false;

  constructor(private readonly clock: FrameClock = browserClock) {}

  /** Run `draw` in one of the next frames. A draw that waits already is not added again. */
  schedule(draw: () => void): void {
    this.waiting.add(draw);
    this.requestFrame();
  }

  cancel(draw: () => void): void {
    this.waiting.delete(draw);
  }

  private requestFrame(): void {
    if (this.frameRequested || this.waiting.size === 0) return;
    this.frameRequested = true;
    this.clock.requestFrame(() => {
      this.frameRequested = false;
      this.runFrame();
    });
  }

  private runFrame(): void {
    const start = this.clock.now();
    for (const draw of [...this.waiting]) {
      if (start - (this.drawnAt.get(draw) ?? -Infinity) < REDRAW_INTERVAL_MS) continue;
      this.waiting.delete(draw);
      this.drawnAt.set(draw, start);
      draw();
      if (this.clock.now() - start > FRAME_BUDGET_MS) break;
    }
    this.requestFrame();
  }
}

export const redraws = new RedrawScheduler();
