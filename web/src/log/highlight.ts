/** Marks the places of a line that a search found. */

import type { TextPart } from "@/log/ansi";

export interface MarkedPart extends TextPart {
  marked: boolean;
}

/** Split parts so that every occurrence of `query` is marked, also where it spans several colours. */
export function markHits(parts: readonly TextPart[], query: string, caseSensitive: boolean): MarkedPart[] {
  const text = parts.map((part) => part.text).join("");
  const ranges = query === "" ? [] : findAll(text, query, caseSensitive);
  if (ranges.length === 0) return parts.map((part) => ({ ...part, marked: false }));
  const marked: MarkedPart[] = [];
  let start = 0;
  for (const part of parts) {
    marked.push(...splitPart(part, start, ranges));
    start += part.text.length;
  }
  return marked;
}

function splitPart(part: TextPart, start: number, ranges: readonly [number, number][]): MarkedPart[] {
  const pieces: MarkedPart[] = [];
  const end = start + part.text.length;
  let at = start;
  const add = (to: number, marked: boolean) => {
    if (to > at) pieces.push({ ...part, text: part.text.slice(at - start, to - start), marked });
    at = Math.max(at, to);
  };
  for (const [first, last] of ranges) {
    if (last <= start || first >= end) continue;
    add(Math.max(first, start), false);
    add(Math.min(last, end), true);
  }
  add(end, false);
  return pieces;
}

function findAll(text: string, query: string, caseSensitive: boolean): [number, number][] {
  const lower = text.toLowerCase();
  // Lower case can have another length, such as that of "İ"; then positions would be wrong.
  const folds = !caseSensitive && lower.length === text.length;
  const haystack = folds ? lower : text;
  const needle = folds ? query.toLowerCase() : query;
  const ranges: [number, number][] = [];
  let at = haystack.indexOf(needle);
  while (at >= 0 && ranges.length < 200) {
    ranges.push([at, at + needle.length]);
    at = haystack.indexOf(needle, at + needle.length);
  }
  return ranges;
}
