/** Short messages at the bottom right: at most three, gone after 8 s unless they need an answer. */

import { useSyncExternalStore, type ReactNode } from "react";
import { asProblem } from "@/api/client";
import { IconButton } from "@/ui/Button";
import { Icon } from "@/ui/Icon";

export interface Toast {
  title: string;
  text?: string;
  /** Shown before the title; a warning sign by default. */
  icon?: ReactNode;
  action?: ReactNode;
  /** Stays until it is dismissed. */
  sticky?: boolean;
}

interface ShownToast extends Toast {
  id: number;
}

const MAX_TOASTS = 3;
const SHOWN_MS = 8000;
const listeners = new Set<() => void>();
let toasts: readonly ShownToast[] = [];
let counter = 0;

function update(next: readonly ShownToast[]): void {
  toasts = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function showToast(toast: Toast): void {
  counter += 1;
  const id = counter;
  update([...toasts, { ...toast, id }].slice(-MAX_TOASTS));
  if (!toast.sticky) setTimeout(() => dismiss(id), SHOWN_MS);
}

/** Tell that an action failed, with the reason and what to do. */
export function showError(title: string, error: unknown): void {
  const { body } = asProblem(error);
  showToast({ title, text: [body.detail ?? body.title, body.hint].filter(Boolean).join(" ") });
}

function dismiss(id: number): void {
  update(toasts.filter((each) => each.id !== id));
}

export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts);
  return (
    <section className="toasts-area" aria-label="Messages" aria-live="polite">
      {shown.map((toast) => (
        <div key={toast.id} className="toast">
          {toast.icon ?? <Icon name="warning" />}
          <div>
            <b>{toast.title}</b>
            {toast.text !== undefined && <p>{toast.text}</p>}
          </div>
          {toast.action ?? <span />}
          <IconButton icon="close" label="Dismiss" onClick={() => dismiss(toast.id)} />
        </div>
      ))}
    </section>
  );
}
