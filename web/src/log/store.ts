/**
 * The lines of one attempt that the page has: pages that were read by number, and lines that arrive live.
 *
 * Only a bounded number of pages is kept. A line is `undefined` until it is read, and `null` if the server does not
 * have it any more.
 */

import { LineAssembler, type LogText } from "@/log/lines";

export const PAGE_LINES = 500;
const MAX_PAGES = 60;
/** An unfinished line up to this length is read again from the stream, so that it is exact. */
const MAX_REREAD = 64 * 1024;

/** An answer of `GET …/logs/lines`. */
export interface LinesAnswer {
  attempt: number;
  total_lines: number;
  total_bytes: number;
  unfinished_from: number;
  complete: boolean;
  lines: { number: number; text: string; rest?: number | null; at?: string | null }[];
}

export type KnownLine = LogText | null | undefined;

export class LogStore {
  private pages = new Map<number, KnownLine[]>();
  private assembler: LineAssembler | null = null;
  private total = 0;
  private bytes = 0;
  /** Changes with every change of the lines. */
  version = 0;

  constructor(readonly attempt: number) {}

  get totalLines(): number {
    return this.total;
  }

  /** Lines up to this one are complete, so a page that the server sends has their final text. */
  get completeLines(): number {
    return this.assembler === null ? this.total : Math.min(this.total, this.assembler.complete);
  }

  get totalBytes(): number {
    return this.bytes;
  }

  line(number: number): KnownLine {
    return this.pages.get(pageOf(number))?.[indexOf(number)];
  }

  /** Take the newest lines, and start to assemble what follows. Returns the offset to follow from. */
  start(answer: LinesAnswer): number {
    this.pages.clear();
    this.total = answer.total_lines;
    this.bytes = answer.total_bytes;
    this.putAnswer(answer);
    const unfinished = answer.total_bytes - answer.unfinished_from;
    const rereads = unfinished > 0 && unfinished <= MAX_REREAD;
    const offset = rereads ? answer.unfinished_from : answer.total_bytes;
    const line = answer.total_lines + (unfinished > 0 ? 0 : 1);
    const pending = unfinished > MAX_REREAD ? (answer.lines.at(-1)?.text ?? "") : "";
    this.assembler = new LineAssembler(offset, line, pending);
    this.version += 1;
    return offset;
  }

  /** Take a page. Lines that the stream delivers are left to it, so that none is taken twice. */
  take(answer: LinesAnswer, from: number): void {
    const first = answer.lines[0]?.number ?? answer.total_lines + 1;
    const end = Math.min(first, from + PAGE_LINES);
    for (let number = from; number < end; number += 1)
      if (number <= this.completeLines) this.put(number, null);
    this.putAnswer(answer);
    this.version += 1;
  }

  /** Take bytes of the stream. Returns "gap" if bytes are missing; then the log must be read again. */
  add(start: number, bytes: Uint8Array, at: number): "gap" | "ok" {
    const update = this.assembler?.add(start, bytes, at) ?? null;
    if (update === "gap") return "gap";
    if (update === null) return "ok";
    update.lines.forEach((line, index) => this.put(update.first + index, line));
    this.total = Math.max(this.total, update.first + update.lines.length - 1);
    this.bytes = Math.max(this.bytes, this.assembler!.nextOffset);
    this.version += 1;
    return "ok";
  }

  /** First lines of the pages that have to be read to show the lines `first` to `last`. */
  missing(first: number, last: number): number[] {
    const starts = [];
    for (let page = pageOf(first); page <= pageOf(last); page += 1) {
      const start = page * PAGE_LINES + 1;
      const end = Math.min(start + PAGE_LINES - 1, this.completeLines);
      for (let number = Math.max(start, first); number <= Math.min(end, last); number += 1) {
        if (this.line(number) !== undefined) continue;
        starts.push(this.isEmpty(page) ? start : number);
        break;
      }
    }
    return starts;
  }

  private isEmpty(page: number): boolean {
    return !this.pages.has(page);
  }

  private putAnswer(answer: LinesAnswer): void {
    let expected = answer.lines[0]?.number ?? 0;
    for (const line of answer.lines) {
      for (; expected < line.number; expected += 1) this.put(expected, null);
      expected = line.number + 1;
      if (this.assembler !== null && line.number > this.completeLines) continue;
      const at = line.at == null ? null : Date.parse(line.at);
      this.put(line.number, { text: line.text, at, rest: line.rest ?? null });
    }
  }

  private put(number: number, line: KnownLine): void {
    const page = pageOf(number);
    const lines = this.pages.get(page) ?? [];
    lines[indexOf(number)] = line;
    this.pages.delete(page); // the newest page is the last of the map
    this.pages.set(page, lines);
    if (this.pages.size > MAX_PAGES) this.pages.delete(this.pages.keys().next().value!);
  }
}

function pageOf(number: number): number {
  return Math.floor((number - 1) / PAGE_LINES);
}

function indexOf(number: number): number {
  return (number - 1) % PAGE_LINES;
}
