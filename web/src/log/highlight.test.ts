import { expect, it } from "vitest";
import { parseAnsi } from "@/log/ansi";
import { markHits } from "@/log/highlight";

const marked = (line: string, query: string, caseSensitive = false) =>
  markHits(parseAnsi(line), query, caseSensitive).map((part) => (part.marked ? `[${part.text}]` : part.text));

it("marks every occurrence without regard to case", () => {
  expect(marked("Loss 1 loss", "loss")).toEqual(["[Loss]", " 1 ", "[loss]"]);
  expect(marked("Loss 1 loss", "loss", true)).toEqual(["Loss 1 ", "[loss]"]);
  expect(marked("nothing", "loss")).toEqual(["nothing"]);
  expect(marked("any", "")).toEqual(["any"]);
});

it("marks a hit that spans colours", () => {
  expect(marked("\x1b[31mER\x1b[1mROR\x1b[0m!", "error")).toEqual(["[ER]", "[ROR]", "!"]);
});

it("keeps the text when lower case has another length", () => {
  expect(marked("İx loss", "loss")).toEqual(["İx ", "[loss]"]);
});
