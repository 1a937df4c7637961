/** Light and dark: the system's preference, or the user's choice. */

import { useSyncExternalStore } from "react";
import { storeText } from "@/lib/storage";

export type Theme = "system" | "light" | "dark";

const KEY = "anygpu.theme";
const listeners = new Set<() => void>();

function stored(): Theme {
  const value = localStorage.getItem(KEY);
  return value === "light" || value === "dark" ? value : "system";
}

let theme: Theme = stored();

/** Put the theme on the page. Called once before the first paint, and at every change. */
export function applyTheme(): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function setTheme(next: Theme): void {
  theme = next;
  storeText(KEY, next);
  applyTheme();
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, () => theme);
}

/** Call `listener` when the shown colours change, by choice or because the system switched. */
export function onColorsChange(listener: () => void): () => void {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", listener);
  const unsubscribe = subscribe(listener);
  return () => {
    system.removeEventListener("change", listener);
    unsubscribe();
  };
}

/** The colour of a token such as `--c1` as `rgb(…)`, for canvas. */
export function tokenColor(token: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  probe.hidden = true;
  document.body.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}
