import { describe, expect, it } from "vitest";
import { nearestToken, parseAnsi, plainText } from "@/log/ansi";

const styled = (line: string) => parseAnsi(line).map((part) => [part.text, part.className]);

describe("parseAnsi", () => {
  it("keeps plain text as one part", () => {
    expect(styled("epoch 1\tloss 0.3")).toEqual([["epoch 1\tloss 0.3", ""]]);
    expect(styled("")).toEqual([]);
  });

  it("maps the 16 colours to tokens, and black and white to the text colour", () => {
    expect(styled("\x1b[31mbad\x1b[0m ok \x1b[92mgood\x1b[39m end")).toEqual([
      ["bad", "t-red"],
      [" ok ", ""],
      ["good", "t-green"],
      [" end", ""],
    ]);
    expect(styled("\x1b[37mwhite \x1b[30mblack \x1b[90mgrey")).toEqual([
      ["white black ", ""],
      ["grey", "t-dim"],
    ]);
  });

  it("combines bold, dim, italic and underline", () => {
    expect(styled("\x1b[1;4;36mx\x1b[22my\x1b[mz")).toEqual([
      ["x", "t-cyan t-bold t-underline"],
      ["y", "t-cyan t-underline"],
      ["z", ""],
    ]);
    expect(styled("\x1b[2mdim\x1b[22m\x1b[3mslanted")).toEqual([
      ["dim", "t-dim"],
      ["slanted", "t-italic"],
    ]);
  });

  it("maps 256 colours and true colours to the nearest token", () => {
    expect(styled("\x1b[38;5;196mred\x1b[38;5;46mgreen\x1b[38;5;244mgrey")).toEqual([
      ["red", "t-red"],
      ["green", "t-green"],
      ["grey", "t-dim"],
    ]);
    expect(styled("\x1b[38;2;30;100;255mblue\x1b[48;5;220mon yellow")).toEqual([
      ["blue", "t-blue"],
      ["on yellow", "t-blue tb-yellow"],
    ]);
    expect(styled("\x1b[38;5mbroken")).toEqual([["broken", ""]]);
  });

  it("removes every other control sequence", () => {
    expect(styled("\x1b[2Ka\x1b[10;20Hb\x1b]0;title\x07c\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\")).toEqual([
      ["abclink", ""],
    ]);
    expect(styled("\x1b[?25lhidden\x1b(B\x00\x07\x7f\x1b")).toEqual([["hidden", ""]]);
    expect(styled("\x1bP1$r payload\x1b\\after")).toEqual([["after", ""]]);
  });

  it("shows characters that reverse the text as replacements", () => {
    expect(styled("a\u202eb")).toEqual([["a\ufffdb", ""]]);
    expect(plainText("a\u202eb\x1b[31mc")).toBe("a\ufffdbc");
  });

  it("leaves markup as text", () => {
    expect(styled("<img src=x onerror=alert(1)>")).toEqual([["<img src=x onerror=alert(1)>", ""]]);
  });

  it("is fast on hostile lines", () => {
    const started = performance.now();
    parseAnsi("\x1b[".repeat(8000));
    parseAnsi(`\x1b[${"1;".repeat(8000)}m`);
    parseAnsi("\x1b]".repeat(4000));
    parseAnsi("\x1bP".repeat(4000));
    expect(performance.now() - started).toBeLessThan(1000);
  });
});

describe("nearestToken", () => {
  it("goes by hue", () => {
    expect(nearestToken(255, 0, 0)).toBe("red");
    expect(nearestToken(255, 200, 0)).toBe("yellow");
    expect(nearestToken(0, 200, 200)).toBe("cyan");
    expect(nearestToken(200, 0, 200)).toBe("magenta");
    expect(nearestToken(255, 255, 255)).toBe("");
  });
});
