/** The crosshair that several charts share: one position, shown in all of them. */

export interface CrosshairPosition {
  x: number;
  /** The chart under the pointer, which shows the tooltip. */
  source: string;
}

type Listener = (position: CrosshairPosition | null) => void;

export class Crosshair {
  private listeners = new Set<Listener>();
  private stepper: ((direction: number) => void) | null = null;
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

  /** The chart that the arrow keys move: the one that was last pointed at or focused. */
  setStepper(stepper: ((direction: number) => void) | null): void {
    this.stepper = stepper;
  }

  clearStepper(stepper: (direction: number) => void): void {
    if (this.stepper === stepper) this.stepper = null;
  }

  /** Move by one point to the right (1) or left (-1). Returns whether a chart did. */
  step(direction: number): boolean {
    this.stepper?.(direction);
    return this.stepper !== null;
  }
}
