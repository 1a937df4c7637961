/** The drafts that the browser keeps: one for new jobs, and one for each of the last cloned jobs. */

import { storeText } from "@/lib/storage";
import { EMPTY_FIELDS, emptyDraft, type Draft } from "@/views/new/draft";

const STORAGE = "anygpu.draft";
const CLONES = `${STORAGE}:`;
const VERSION = 2;
export const MAX_CLONES = 5;

export interface StoredDraft {
  draft: Draft;
  /** When it was changed last, in milliseconds. */
  changedAt: number;
}

/** The key of a draft: one for new jobs, and one for each cloned job. */
export function draftKey(from: string | undefined): string {
  return from === undefined ? STORAGE : `${CLONES}${from}`;
}

export function loadDraft(key: string): StoredDraft | null {
  try {
    const stored = JSON.parse(localStorage.getItem(key) ?? "null") as
      (StoredDraft & { version: number }) | null;
    if (stored === null || stored.version !== VERSION) return null;
    const { draft, changedAt } = stored;
    return { draft: { ...emptyDraft(), ...draft, fields: { ...EMPTY_FIELDS, ...draft.fields } }, changedAt };
  } catch {
    return null;
  }
}

/** Keep a draft. Return false if the browser has no room for it; the page goes on without. */
export function saveDraft(key: string, draft: Draft): boolean {
  if (key.startsWith(CLONES)) forgetOldClones(key);
  return storeText(key, JSON.stringify({ version: VERSION, draft, changedAt: Date.now() }));
}

export function forgetDraft(key: string): void {
  localStorage.removeItem(key);
}

/** Make room for one more clone: of the others, only the newest ones stay. */
function forgetOldClones(added: string): void {
  const keys = Array.from({ length: localStorage.length }, (_, index) => localStorage.key(index) ?? "");
  const others = keys.filter((key) => key.startsWith(CLONES) && key !== added);
  if (others.length < MAX_CLONES) return;
  const age = (key: string) => loadDraft(key)?.changedAt ?? 0;
  const newest = others.map((key) => ({ key, at: age(key) })).sort((one, other) => other.at - one.at);
  for (const { key } of newest.slice(MAX_CLONES - 1)) forgetDraft(key);
}
