import { useEffect, useEffectEvent, useState } from "react";

const WRITE_DELAY_MS = 200;

/** A value that follows its input at once, and is written to the URL shortly after the last change. */
export function useDelayedWrite<T>(value: T, write: (value: T) => void): [T, (value: T) => void] {
  const [draft, setDraft] = useState<{ value: T } | null>(null);
  const commit = useEffectEvent(write);
  useEffect(() => {
    if (draft === null) return undefined;
    const timer = setTimeout(() => {
      commit(draft.value);
      setDraft(null);
    }, WRITE_DELAY_MS);
    return () => clearTimeout(timer);
  }, [draft]);
  return [draft === null ? value : draft.value, (next) => setDraft({ value: next })];
}
