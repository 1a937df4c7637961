/** The pinned metrics of this browser. They apply to every job that has metrics of these names. */

import { useSyncExternalStore } from "react";

const KEY = "anygpu.pinned-metrics";
export const MAX_PINS = 200;
const listeners = new Set<() => void>();
let pins: readonly string[] = readPins();

function readPins(): readonly string[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(stored) ? stored.filter((each) => typeof each === "string") : [];
  } catch {
    return [];
  }
}

export function setPins(next: readonly string[]): void {
  pins = next.slice(0, MAX_PINS);
  localStorage.setItem(KEY, JSON.stringify(pins));
  for (const listener of listeners) listener();
}

export function usePins(): readonly string[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => pins,
  );
}
