import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { emptyDraft, withText } from "@/views/new/draft";
import { MAX_CLONES, draftKey, forgetDraft, loadDraft, saveDraft } from "@/views/new/draft-storage";

const draft = withText(emptyDraft(), "train.py", "print(1)");
let stored: Map<string, string>;

beforeEach(() => {
  stored = new Map();
  vi.useFakeTimers();
  vi.stubGlobal("localStorage", {
    get length() {
      return stored.size;
    },
    key: (index: number) => [...stored.keys()][index] ?? null,
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, text: string) => void stored.set(key, text),
    removeItem: (key: string) => void stored.delete(key),
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("a draft is kept with the time of its last change", () => {
  vi.setSystemTime(5000);
  expect(saveDraft(draftKey("a"), draft)).toBe(true);
  expect(loadDraft(draftKey("a"))).toEqual({ draft, changedAt: 5000 });
  forgetDraft(draftKey("a"));
  expect(loadDraft(draftKey("a"))).toBeNull();
});

test("only the drafts of the last cloned jobs are kept", () => {
  saveDraft(draftKey(undefined), draft);
  stored.set(draftKey("of-an-older-version"), "{}");
  const names = Array.from({ length: MAX_CLONES }, (_, number) => `job-${number}`);
  for (const [index, name] of names.entries()) {
    vi.setSystemTime(1000 * index);
    saveDraft(draftKey(name), draft);
  }
  vi.setSystemTime(10_000);
  saveDraft(draftKey("job-0"), draft);
  saveDraft(draftKey("added"), draft);
  const kept = [undefined, "job-0", ...names.slice(2), "added"].map(draftKey);
  expect([...stored.keys()].toSorted()).toEqual(kept.toSorted());
});
