import { describe, expect, it } from "vitest";
import { LogStore, PAGE_LINES, type LinesAnswer } from "@/log/store";

const encode = (text: string) => new TextEncoder().encode(text);

function answer(first: number, texts: string[], more: Partial<LinesAnswer> = {}): LinesAnswer {
  const lines = texts.map((text, index) => ({ number: first + index, text, rest: null, at: null }));
  return {
    attempt: 1,
    total_lines: first + texts.length - 1,
    total_bytes: 1000,
    unfinished_from: 1000,
    complete: false,
    lines,
    ...more,
  };
}

const texts = (store: LogStore, first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => store.line(first + index)?.text);

describe("LogStore", () => {
  it("shows the tail and appends what the stream delivers, once", () => {
    const store = new LogStore(1);
    expect(store.start(answer(9, ["i", "j"]))).toBe(1000);
    expect(store.add(1000, encode("k\nl"), 0)).toBe("ok");
    expect(store.add(990, encode("0123456789k\nl\n"), 0)).toBe("ok");
    expect(texts(store, 9, 12)).toEqual(["i", "j", "k", "l"]);
    expect(store.totalLines).toBe(12);
    expect(store.totalBytes).toBe(1004);
    expect(store.add(1000, encode("k\nl\nm"), 0)).toBe("ok");
    expect(texts(store, 11, 13)).toEqual(["k", "l", "m"]);
  });

  it("reads an unfinished line again from the stream", () => {
    const store = new LogStore(1);
    const start = store.start(answer(1, ["a", "hal"], { total_bytes: 5, unfinished_from: 2 }));
    expect(start).toBe(2);
    store.add(2, encode("half"), 0);
    expect(texts(store, 1, 2)).toEqual(["a", "half"]);
    store.add(6, encode(" done\n"), 0);
    expect(texts(store, 1, 2)).toEqual(["a", "half done"]);
    expect(store.totalLines).toBe(2);
  });

  it("continues a very long unfinished line from its newest text", () => {
    const store = new LogStore(1);
    const start = store.start(answer(1, [" 50%"], { total_bytes: 900_000, unfinished_from: 0 }));
    expect(start).toBe(900_000);
    store.add(900_000, encode("\r 51%"), 0);
    expect(texts(store, 1, 1)).toEqual([" 51%"]);
  });

  it("says which pages are missing and takes them", () => {
    const store = new LogStore(1);
    store.start(answer(4990, ["x"], { total_lines: 5000, lines: [{ number: 5000, text: "x" }] }));
    expect(store.missing(600, 640)).toEqual([PAGE_LINES + 1]);
    expect(store.missing(990, 1010)).toEqual([PAGE_LINES + 1, 2 * PAGE_LINES + 1]);
    const page = answer(
      501,
      Array.from({ length: PAGE_LINES }, (_, index) => `line ${501 + index}`),
    );
    store.take({ ...page, total_lines: 5000 }, 501);
    expect(store.missing(600, 640)).toEqual([]);
    expect(store.line(640)?.text).toBe("line 640");
    expect(store.missing(5001, 5050)).toEqual([]);
  });

  it("continues a page that the server cut short", () => {
    const store = new LogStore(1);
    store.start(answer(2000, ["x"]));
    store.take({ ...answer(1, ["a", "b"]), total_lines: 2000 }, 1);
    expect(store.missing(1, 40)).toEqual([3]);
  });

  it("marks lines that the server has not kept", () => {
    const store = new LogStore(1);
    store.start(answer(5000, ["x"]));
    store.take({ ...answer(1200, ["kept"]), total_lines: 5000 }, 1001);
    expect(store.line(1001)).toBeNull();
    expect(store.line(1199)).toBeNull();
    expect(store.line(1200)?.text).toBe("kept");
    expect(store.missing(1001, 1200)).toEqual([]);
    store.take({ ...answer(1, []), total_lines: 5000, lines: [] }, 1);
    expect(store.line(500)).toBeNull();
  });

  it("leaves lines of a page to the stream if they are not complete here", () => {
    const store = new LogStore(1);
    store.start(answer(1, ["a"], { total_bytes: 2, unfinished_from: 2 }));
    store.add(2, encode("b"), 0);
    store.take(answer(1, ["a", "bcd", "e"], { total_bytes: 9 }), 1);
    expect(texts(store, 1, 3)).toEqual(["a", "b", undefined]);
    expect(store.totalLines).toBe(2);
    store.add(3, encode("cd\ne\n"), 0);
    expect(texts(store, 1, 3)).toEqual(["a", "bcd", "e"]);
  });

  it("reads a long line of the stream from the server, which says where its rest is", () => {
    const store = new LogStore(1);
    store.start(answer(1, ["a"]));
    const bytes = encode(`b\n${"x".repeat(9000)}\nc\n`);
    expect(store.missing(1, 4)).toEqual([]);
    store.add(1000, bytes, 0);
    expect(store.missing(1, 4)).toEqual([3]);
    const lines = [
      { number: 3, text: "x".repeat(8192), rest: 9194 },
      { number: 4, text: "c" },
    ];
    store.take({ ...answer(3, []), lines, total_lines: 4 }, 3);
    expect(store.missing(1, 4)).toEqual([]);
    expect(store.line(3)).toMatchObject({ rest: 9194 });
    expect(texts(store, 4, 4)).toEqual(["c"]);
  });

  it("reports a gap of the stream", () => {
    const store = new LogStore(1);
    store.start(answer(1, ["a"]));
    expect(store.add(2000, encode("later"), 0)).toBe("gap");
  });

  it("keeps a bounded number of lines", () => {
    const store = new LogStore(1);
    store.start(answer(1, []));
    let offset = 1000;
    for (let block = 0; block < 400; block += 1) {
      const bytes = encode("line\n".repeat(PAGE_LINES));
      store.add(offset, bytes, 0);
      offset += bytes.length;
    }
    expect(store.totalLines).toBe(400 * PAGE_LINES);
    expect(store.line(1)).toBeUndefined();
    expect(store.line(store.totalLines)?.text).toBe("line");
    expect(store.missing(1, 10)).toEqual([1]);
  });
});
