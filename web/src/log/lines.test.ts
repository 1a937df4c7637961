import { describe, expect, it } from "vitest";
import { decodeBase64, LineAssembler, MAX_TEXT, shownText, type LineUpdate } from "@/log/lines";

const encode = (text: string) => new TextEncoder().encode(text);

function collect(assembler: LineAssembler, deliveries: [number, Uint8Array][]): string[] {
  const lines: string[] = [];
  for (const [start, bytes] of deliveries) {
    const update = assembler.add(start, bytes, 0);
    if (update === null || update === "gap") continue;
    update.lines.forEach((line, index) => (lines[update.first - 1 + index] = line!.text));
  }
  return lines;
}

describe("shownText", () => {
  it("keeps the last state of a progress bar", () => {
    expect(shownText("\r 1%\r 2%\r100%")).toBe("100%");
    expect(shownText("done\r")).toBe("done");
    expect(shownText("bar 5%\r      \r")).toBe("bar 5%");
    expect(shownText("plain")).toBe("plain");
    expect(shownText("\r\r\r")).toBe("");
  });
});

describe("LineAssembler", () => {
  it("numbers lines from where it starts and shows an unfinished line", () => {
    const assembler = new LineAssembler(100, 8);
    const update = assembler.add(100, encode("a\nb\nc"), 5) as LineUpdate;
    expect(update.first).toBe(8);
    expect(update.lines.map((line) => line!.text)).toEqual(["a", "b", "c"]);
    expect(update.unfinished).toBe(true);
    expect(update.lines[0]!.at).toBe(5);
    expect(assembler.complete).toBe(9);
    expect(collect(assembler, [[105, encode("d\n")]]).slice(9)).toEqual(["cd"]);
  });

  it("takes every byte once, whatever is delivered twice", () => {
    const bytes = encode("one\ntwo\nthree\n");
    const deliveries: [number, Uint8Array][] = [
      [0, bytes.subarray(0, 5)],
      [0, bytes.subarray(0, 5)],
      [3, bytes.subarray(3, 9)],
      [0, bytes],
      [0, bytes],
    ];
    const assembler = new LineAssembler(0, 1);
    expect(collect(assembler, deliveries)).toEqual(["one", "two", "three"]);
    expect(assembler.nextOffset).toBe(bytes.length);
  });

  it("equals splitting the whole text, however it is cut", () => {
    const text = "αβγ\n\r1%\r2%\r3%\nplain\r\n\n日本語 \u{1f600}\nend";
    const bytes = encode(text);
    const expected = text.split("\n").map(shownText);
    for (let size = 1; size <= 7; size += 1) {
      const deliveries: [number, Uint8Array][] = [];
      for (let at = 0; at < bytes.length; at += size) deliveries.push([at, bytes.subarray(at, at + size)]);
      expect(collect(new LineAssembler(0, 1), deliveries)).toEqual(expected);
    }
  });

  it("reports a gap instead of guessing line numbers", () => {
    const assembler = new LineAssembler(10, 3);
    expect(assembler.add(50, encode("x\n"), 0)).toBe("gap");
    expect(assembler.nextOffset).toBe(10);
  });

  it("continues a line of which the server has sent the text", () => {
    const assembler = new LineAssembler(500, 4, " 50%");
    expect((assembler.add(500, encode("\r 51%"), 0) as LineUpdate).lines[0]!.text).toBe(" 51%");
  });

  it("keeps little of a line that never ends", () => {
    const assembler = new LineAssembler(0, 1);
    let offset = 0;
    for (let number = 0; number < 300; number += 1) {
      const bytes = encode(`\r${String(number).padStart(999, "x")}`);
      assembler.add(offset, bytes, 0);
      offset += bytes.length;
    }
    const update = assembler.add(offset, encode("!\n"), 0) as LineUpdate;
    expect(update.lines[0]!.text.endsWith("299!")).toBe(true);
  });

  it("cuts a long unfinished line, and leaves a long complete one to the server", () => {
    const assembler = new LineAssembler(0, 1);
    const cut = assembler.add(0, encode("y".repeat(20_000)), 0) as LineUpdate;
    expect(cut.lines[0]!.text.length).toBe(MAX_TEXT + 2);
    const done = assembler.add(20_000, encode("\nshort\n"), 0) as LineUpdate;
    expect(done.lines.map((line) => line?.text)).toEqual([undefined, "short"]);
  });

  it("replaces invalid bytes", () => {
    expect(collect(new LineAssembler(0, 1), [[0, new Uint8Array([0xff, 0x61, 0x0a])]])).toEqual(["\ufffda"]);
  });
});

describe("decodeBase64", () => {
  it("returns bytes", () => {
    expect([...decodeBase64("AP9h")]).toEqual([0, 255, 97]);
  });
});
