/** The search in a log, with its hits and the current one. */

import { useEffect, useEffectEvent, useState } from "react";
import { api, asProblem, unwrap } from "@/api/client";
import type { LogSource } from "@/log/feed";
import { firstHits, lastHitUpTo, withNewer, withOlder, type Hits } from "@/log/hits";

const DELAY_MS = 250;
const REFRESH_MS = 2000;
const PAGE = 1000;

export interface LogQuery {
  text: string;
  regex: boolean;
  matchCase: boolean;
}

export interface LogSearch {
  hits: Hits | null;
  /** Index of the current hit, or null. */
  current: number | null;
  error: string | null;
  /** Go to the next (1) or previous (-1) hit; without a current one, to the last hit up to `visible`. */
  move: (direction: 1 | -1, visible: number) => Promise<number | null>;
}

interface Found {
  key: string;
  hits: Hits | null;
  current: number | null;
  error: string | null;
}

const NOTHING: Found = { key: "", hits: null, current: null, error: null };

interface Where {
  after?: number;
  before?: number;
  count: boolean;
}

function readHits(
  { job, attempt, node }: LogSource,
  { text, regex, matchCase }: LogQuery,
  where: Where,
  signal?: AbortSignal,
) {
  const from = { attempt: attempt || undefined, node: node || undefined };
  const options = { regex, case: matchCase, ...from, text: false, limit: PAGE };
  return unwrap(
    api.GET("/api/v1/training/{ref}/logs/search", {
      params: { path: { ref: job }, query: { q: text, ...options, ...where } },
      signal,
    }),
  );
}

/** @param source with the shown attempt, or null while the log is not loaded */
export function useLogSearch(source: LogSource, query: LogQuery, totalLines: number): LogSearch {
  const { job, attempt, node } = source;
  const { text, regex, matchCase } = query;
  const [stored, setFound] = useState(NOTHING);
  const key =
    text === "" || attempt === null ? "" : JSON.stringify([job, attempt, node, text, regex, matchCase]);
  const found = stored.key === key ? stored : NOTHING;

  const read = useEffectEvent((where: Where, signal?: AbortSignal) => readHits(source, query, where, signal));
  const lines = useEffectEvent(() => totalLines);

  useEffect(() => {
    if (key === "") return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const searched = lines();
      read({ before: searched + 1, count: true }, abort.signal).then(
        (answer) => setFound({ key, hits: firstHits(answer, searched), current: null, error: null }),
        (error: unknown) => {
          if (!abort.signal.aborted) setFound({ key, hits: null, current: null, error: problemText(error) });
        },
      );
    }, DELAY_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [key]);

  const searchedTo = found.hits?.searchedTo ?? null;
  const isBehind = searchedTo !== null && totalLines > searchedTo;
  useEffect(() => {
    if (!isBehind || searchedTo === null) return;
    let active = true;
    const timer = setTimeout(() => {
      const total = lines();
      read({ after: searchedTo, count: false }).then(
        (answer) => {
          if (active) setFound((old) => change(old, key, (hits) => withNewer(hits, answer, total)));
        },
        () => undefined,
      );
    }, REFRESH_MS);
    return () => {
      active = false;
      clearTimeout(timer);
    };
  }, [isBehind, searchedTo, key]);

  const move = async (direction: 1 | -1, visible: number): Promise<number | null> => {
    let hits = found.hits;
    if (hits === null) return null;
    let index = found.current === null ? lastHitUpTo(hits.numbers, visible) : found.current + direction;
    if (index < 0) {
      const known = hits.numbers.length;
      if (hits.older !== null) {
        const where = { before: hits.older, count: false };
        hits = withOlder(hits, await readHits(source, query, where));
      }
      index += hits.numbers.length - known;
    }
    index = Math.min(Math.max(index, 0), hits.numbers.length - 1);
    const line = hits.numbers[index] ?? null;
    const next = { key, hits, current: line === null ? null : index, error: null };
    setFound((old) => (old.key === key ? next : old));
    return line;
  };
  return { hits: found.hits, current: found.current, error: found.error, move };
}

function change(found: Found, key: string, update: (hits: Hits) => Hits): Found {
  return found.key === key && found.hits !== null ? { ...found, hits: update(found.hits) } : found;
}

function problemText(error: unknown): string {
  const { body } = asProblem(error);
  return body.problems?.[0]?.message ?? body.detail ?? body.title;
}
