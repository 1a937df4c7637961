/** The jobs that the user watches, kept in this browser. */

import { useSyncExternalStore } from "react";
import { storeText } from "@/lib/storage";

const KEY = "anygpu.watched";
const MAX_WATCHED = 12;
const listeners = new Set<() => void>();
let watched: readonly string[] = read();

function read(): readonly string[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(stored) ? stored.filter((each) => typeof each === "string") : [];
  } catch {
    return [];
  }
}

function write(next: readonly string[]): void {
  watched = next;
  storeText(KEY, JSON.stringify(next));
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  if (listeners.size === 0) window.addEventListener("storage", handleStorage);
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) window.removeEventListener("storage", handleStorage);
  };
}

/** Another tab has changed the list. */
function handleStorage(event: StorageEvent): void {
  if (event.key !== KEY) return;
  watched = read();
  for (const listener of listeners) listener();
}

export function watchedJobs(): readonly string[] {
  return watched;
}

export function isWatched(id: string): boolean {
  return watched.includes(id);
}

/** Watch a job; the oldest of too many is dropped. */
export function watchJob(id: string): void {
  if (!isWatched(id)) write([...watched, id].slice(-MAX_WATCHED));
}

export function unwatchJob(id: string): void {
  if (isWatched(id)) write(watched.filter((each) => each !== id));
}

export function useWatched(): readonly string[] {
  return useSyncExternalStore(subscribe, watchedJobs);
}
