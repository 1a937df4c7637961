/** Whether the command palette or the help is open. Separate from the palette, which is loaded when first used. */

import { useSyncExternalStore } from "react";

export type Overlay = "palette" | "help" | null;

const listeners = new Set<() => void>();
let overlay: Overlay = null;

function setOverlay(next: Overlay): void {
  overlay = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const openPalette = (): void => setOverlay("palette");
export const openHelp = (): void => setOverlay("help");
export const closeOverlay = (): void => setOverlay(null);

export function useOverlay(): Overlay {
  return useSyncExternalStore(subscribe, () => overlay);
}
