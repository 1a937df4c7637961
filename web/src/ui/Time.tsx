import { useSyncExternalStore } from "react";
import { absoluteTime, relativeTime } from "@/lib/time";

const TICK_MS = 1000;
const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | null = null;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (timer === null) {
    now = Date.now();
    timer = setInterval(tick, TICK_MS);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0 && timer !== null) {
      clearInterval(timer);
      timer = null;
    }
  };
}

function tick(): void {
  if (document.hidden) return;
  now = Date.now();
  for (const listener of listeners) listener();
}

/** The current time, updated every second while the page is visible. One timer serves all components. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

/** A time relative to now ("8 h ago"), with the absolute time as its title. */
export function RelativeTime({ at }: { at: string }) {
  const current = useNow();
  return (
    <time dateTime={at} title={absoluteTime(at)}>
      {relativeTime(at, current)}
    </time>
  );
}
