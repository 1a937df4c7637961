/** The search in a log, with its hits and the current one. */

import { useEffect, useEffectEvent, useState } from "react";
import { api, asProblem, unwrap, type ProblemBody } from "@/api/client";
import { isTemporary } from "@/live/connection";
import type { LogSource } from "@/log/feed";
import {
  continuedHits,
  firstHits,
  lastHitUpTo,
  unfinishedFrom,
  withNewer,
  withOlder,
  type Hits,
  type HitsAnswer,
  type LogExtent,
} from "@/log/hits";

/** Time to the first search, and to the next part of one that found nothing yet. */
const DELAY_MS = 250;
/** Time to the next search, of new lines or after a temporary problem. */
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
  /** Why the last search failed. After a temporary problem it is tried again by itself. */
  error: { text: string; isInvalid: boolean } | null;
  /** Go to the next (1) or previous (-1) hit; without a current one, to the last hit up to `visible`. */
  move: (direction: 1 | -1, visible: number) => Promise<number | null>;
}

interface Found {
  key: string;
  hits: Hits | null;
  current: number | null;
  problem: ProblemBody | null;
  /** How many searches have ended. */
  turn: number;
}

const NOTHING: Omit<Found, "key"> = { hits: null, current: null, problem: null, turn: 0 };
const INVALID = 422;

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
export function useLogSearch(source: LogSource, query: LogQuery, log: LogExtent): LogSearch {
  const { job, attempt, node } = source;
  const { text, regex, matchCase } = query;
  const key =
    text === "" || attempt === null ? "" : JSON.stringify([job, attempt, node, text, regex, matchCase]);
  const [stored, setStored] = useState<Found>({ key: "", ...NOTHING });
  const ofKey = (found: Found): Found => (found.key === key ? found : { key, ...NOTHING });
  const found = ofKey(stored);
  const { hits, current, problem, turn } = found;
  const isLasting = problem !== null && !isTemporary(problem);
  const unfinished = hits === null ? null : unfinishedFrom(hits);
  const isDue =
    key !== "" && !isLasting && (hits === null || unfinished !== null || log.bytes > hits.searchedBytes);
  const delay = problem === null && (hits === null || unfinished !== null) ? DELAY_MS : REFRESH_MS;

  /** Search the log, more of it if nothing was found yet, or only what is new in it. */
  const search = useEffectEvent(async (signal: AbortSignal) => {
    const where =
      hits === null
        ? { before: log.lines + 1, count: true }
        : unfinished !== null
          ? { before: unfinished, count: true }
          : { after: hits.searchedTo, count: false };
    const nextHits = (old: Hits | null, answer: HitsAnswer): Hits => {
      if (old === null) return firstHits(answer, log);
      if (unfinished === null) return withNewer(old, answer, log);
      // Meanwhile the user may have gone to an older hit.
      return unfinishedFrom(old) === unfinished ? continuedHits(old, answer) : old;
    };
    let update: (found: Found) => Found;
    try {
      const answer = await readHits(source, query, where, signal);
      update = (old) => withHits(old, nextHits(old.hits, answer));
    } catch (error) {
      update = (old) => ({ ...old, problem: asProblem(error).body });
    }
    if (!signal.aborted) setStored((old) => update({ ...ofKey(old), turn: turn + 1 }));
  });
  useEffect(() => {
    if (!isDue) return;
    const abort = new AbortController();
    const timer = setTimeout(() => void search(abort.signal), delay);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [isDue, delay, turn, key]);

  const move = async (direction: 1 | -1, visible: number): Promise<number | null> => {
    if (hits === null) return null;
    let known = hits;
    let index = current === null ? lastHitUpTo(hits.numbers, visible) : current + direction;
    const change = (update: (old: Found) => Found) =>
      setStored((old) => (old.key === key ? update(old) : old));
    if (index < 0 && hits.older !== null) {
      const { older } = hits;
      try {
        const answer = await readHits(source, query, { before: older, count: false });
        known = withOlder(hits, answer);
        change((old) => (old.hits?.older === older ? withHits(old, withOlder(old.hits, answer)) : old));
      } catch (error) {
        change((old) => ({ ...old, problem: asProblem(error).body }));
        return null;
      }
      index += known.numbers.length - hits.numbers.length;
    }
    index = Math.min(Math.max(index, 0), known.numbers.length - 1);
    const line = known.numbers[index] ?? null;
    change((old) => ({ ...old, current: line === null ? null : index }));
    return line;
  };
  const error = problem && { text: problemText(problem), isInvalid: problem.status === INVALID };
  return { hits, current, error, move };
}

/** Set the hits. The newest ones may be gone, if they were in an unfinished line. */
function withHits(found: Found, hits: Hits): Found {
  const newest = hits.numbers.length - 1;
  const current = found.current === null || newest < 0 ? null : Math.min(found.current, newest);
  return { ...found, hits, current, problem: null };
}

function problemText({ problems, detail, title }: ProblemBody): string {
  return problems?.[0]?.message ?? detail ?? title;
}
