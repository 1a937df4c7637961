/** The crosshair that several charts share: one position, shown in all of them. */

export interface CrosshairPosition {
  x: number;
  /** The chart under the pointer, which shows the tooltip. */
  source: string;
}

/** What keys do with a chart. */
export interface ChartKeys {
  /** Move the crosshair by one point to the right (1) or left (-1). */
  step: (direction: number) => void;
  /** Zoom around the crosshair: in (1), out (-1), or show everything (0). */
  zoom: (direction: number) => void;
}

type Listener = (position: CrosshairPosition | null) => void;

export class Crosshair {
  private listeners = new Set<Listener>();
  private keys: ChartKeys | null = null;
  position: CrosshairPosition | null = null;

  set(position: CrosshairPosition | null): void {
    if (position === this.position) return;
    this.position = position;
    for (const listener of this.listeners) listener(position);
  }

  subscribe(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** The chart that keys act on: the one that was last pointed at or focused. */
  setKeys(keys: ChartKeys): void {
    this.keys = keys;
  }

  clearKeys(keys: ChartKeys): void {
    if (this.keys === keys) this.keys = null;
  }

  /** Move by one point to the right (1) or left (-1). Returns whether a chart did. */
  step(direction: number): boolean {
    this.keys?.step(direction);
    return this.keys !== null;
  }

  /** Zoom in (1) or out (-1), or show everything (0). Returns whether a chart did. */
  zoom(direction: number): boolean {
    this.keys?.zoom(direction);
    return this.keys !== null;
  }
}
