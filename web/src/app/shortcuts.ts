/**
 * Keyboard shortcuts. Single keys do nothing while a field has the focus. While a dialog is open, only the command
 * palette can be opened.
 */

import { useEffect, useRef } from "react";

export interface Shortcut {
  /** A key ("j"), a sequence of two ("g j"), or a combination ("mod+k": Ctrl, or ⌘ on a Mac). */
  keys: string;
  label: string;
  /** Where the help lists it. */
  group: string;
  run: () => void;
  /** Of a general shortcut: whether the view has something for it. A view's own shortcut replaces it. */
  usable?: () => boolean;
}

export const PALETTE_KEYS = "mod+k";
const SEQUENCE_MS = 1200;
const active = new Set<{ current: readonly Shortcut[] }>();
let pending = "";
let pendingAt = 0;

export function isEditable(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      target.matches("input:not([type=checkbox],[type=radio],[type=range]), textarea, select"))
  );
}

/** Whether Enter activates what has the focus, so that it is not free for a shortcut. */
function isActivatable(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches("a[href], button, summary");
}

/** The name of a key press: "j", "?", "mod+k", "Escape". */
export function keyName(event: KeyboardEvent): string {
  const modifier = event.metaKey || event.ctrlKey;
  return modifier ? `mod+${event.key.toLowerCase()}` : event.key;
}

/** Match a key press against the shortcuts. `previous` is the first key of a sequence, or "". */
export function matchShortcut(
  shortcuts: readonly Shortcut[],
  previous: string,
  key: string,
): Shortcut | "prefix" | null {
  const sequence = previous === "" ? key : `${previous} ${key}`;
  const exact =
    shortcuts.find((each) => each.keys === sequence) ?? shortcuts.find((each) => each.keys === key);
  if (exact !== undefined) return exact;
  return shortcuts.some((each) => each.keys.startsWith(`${key} `)) ? "prefix" : null;
}

/** The shortcuts that do something now. */
export function activeShortcuts(): Shortcut[] {
  return usableShortcuts([...active].flatMap((each) => each.current));
}

export function usableShortcuts(shortcuts: readonly Shortcut[]): Shortcut[] {
  const own = new Set(shortcuts.filter((each) => each.usable === undefined).map((each) => each.keys));
  return shortcuts.filter((each) => each.usable === undefined || (!own.has(each.keys) && each.usable()));
}

function handleKey(event: KeyboardEvent): void {
  const key = keyName(event);
  if (event.defaultPrevented || event.altKey) return;
  if (key !== PALETTE_KEYS && document.querySelector("[role=dialog],[role=alertdialog],[role=menu]")) return;
  if (!key.startsWith("mod+") && isEditable(event.target)) return;
  if (key === "Enter" && isActivatable(event.target)) return;
  const previous = Date.now() - pendingAt < SEQUENCE_MS ? pending : "";
  pending = "";
  // The newest view comes first, so that it can replace a general shortcut.
  const match = matchShortcut(activeShortcuts().reverse(), previous, key);
  if (match === "prefix") {
    pending = key;
    pendingAt = Date.now();
  } else if (match !== null) {
    event.preventDefault();
    match.run();
  }
}

/** Register shortcuts while the component is shown. */
export function useShortcuts(shortcuts: readonly Shortcut[]): void {
  const latest = useRef(shortcuts);
  useEffect(() => {
    latest.current = shortcuts;
  });
  useEffect(() => {
    if (active.size === 0) window.addEventListener("keydown", handleKey);
    active.add(latest);
    return () => {
      active.delete(latest);
      if (active.size === 0) window.removeEventListener("keydown", handleKey);
    };
  }, []);
}
