/**
 * Lines from the bytes of a stream. The same rules as on the server: a carriage return starts the line again, so of
 * a progress bar the last state is one line; every byte counts once, whatever is delivered twice.
 */

export interface LogText {
  text: string;
  /** When the server received it (milliseconds), or null if unknown. */
  at: number | null;
  /** Byte offset of the part that was cut off, or null if the text is complete. */
  rest: number | null;
}

/** Longer lines are cut, as on the server. */
export const MAX_TEXT = 8 * 1024;
/** Of an unfinished line only so much is kept. */
const MAX_PENDING = 64 * 1024;

/** The last text of a line that carriage returns started again. */
export function shownText(line: string): string {
  if (!line.includes("\r")) return line;
  let end = line.length;
  while (end > 0) {
    const start = line.lastIndexOf("\r", end - 1) + 1;
    const text = line.slice(start, end);
    if (text.trim() !== "" || start === 0) return text;
    end = start - 1;
  }
  return "";
}

export interface LineUpdate {
  /** Number of the first changed line. */
  first: number;
  /**
   * The changed lines. The last one is unfinished if `unfinished` is true. A complete line that is too long is
   * undefined: the server's answer has its text and says where the rest is.
   */
  lines: (LogText | undefined)[];
  unfinished: boolean;
}

/** Splits bytes that arrive in order, or twice, into lines. */
export class LineAssembler {
  private decoder = new TextDecoder();
  private pending = "";

  /**
   * @param offset offset of the next byte
   * @param line number of the line that the next byte belongs to
   * @param pending what is already known of that line
   */
  constructor(
    private offset: number,
    private line: number,
    pending = "",
  ) {
    this.pending = pending;
  }

  get nextOffset(): number {
    return this.offset;
  }

  /** Number of complete lines. */
  get complete(): number {
    return this.line - 1;
  }

  /**
   * Add the bytes from offset `start`. Returns the changed lines, null if the bytes are known already, or "gap" if
   * bytes before them are missing: the server did not store them, so their lines must be counted by the server.
   */
  add(start: number, bytes: Uint8Array, at: number): LineUpdate | null | "gap" {
    if (start > this.offset) return "gap";
    const fresh = bytes.subarray(this.offset - start);
    if (start + bytes.length <= this.offset) return null;
    this.offset += fresh.length;
    const parts = (this.pending + this.decoder.decode(fresh, { stream: true })).split("\n");
    const last = parts.pop()!;
    this.pending = last.length > MAX_PENDING ? shownText(last).slice(0, MAX_PENDING) : last;
    const first = this.line;
    const lines = parts.map((text) => completeLine(shownText(text), at));
    this.line += lines.length;
    const unfinished = this.pending !== "";
    if (unfinished) lines.push(unfinishedLine(shownText(this.pending), at));
    return { first, lines, unfinished };
  }
}

// The server cuts after `MAX_TEXT` bytes. A text has no fewer bytes than characters, so it has cut what is cut here.
function completeLine(text: string, at: number): LogText | undefined {
  return text.length > MAX_TEXT ? undefined : { text, at, rest: null };
}

function unfinishedLine(text: string, at: number): LogText {
  return { text: text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)} …` : text, at, rest: null };
}

/** The bytes of a base64 text. */
export function decodeBase64(text: string): Uint8Array {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
  return bytes;
}
