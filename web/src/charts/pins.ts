/** The pinned metrics of this browser. They apply to every job that has metrics of these names. */

import { useSyncExternalStore } from "react";
import { storeText } from "@/lib/storage";

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

/** Pin `next` of the metrics of a job. Pins that only other jobs have stay; the oldest of too many are dropped. */
export function replacePins(
  old: readonly string[],
  metrics: readonly string[],
  next: readonly string[],
): readonly string[] {
  const replaced = new Set([...metrics, ...next]);
  return [...old.filter((pin) => !replaced.has(pin)), ...next].slice(-MAX_PINS);
}

/** @param metrics all metrics of the job in which `next` are pinned */
export function setPins(metrics: readonly string[], next: readonly string[]): void {
  pins = replacePins(pins, metrics, next);
  storeText(KEY, JSON.stringify(pins));
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
