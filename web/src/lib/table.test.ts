import { describe, expect, it } from "vitest";
import { parseTable } from "@/lib/table";

describe("parseTable", () => {
  it("reads quoted fields with separators, line breaks and quotes", () => {
    const table = parseTable("a.csv", 'name,note\r\nx,"a, ""b""\nc"\r\n', false);
    expect(table).toEqual({ head: ["name", "note"], rows: [["x", 'a, "b"\nc']] });
  });

  it("drops the last row of a cut text", () => {
    expect(parseTable("a.csv", "n\n1\n2\n3", true)?.rows).toEqual([["1"], ["2"]]);
  });

  it("reads tabs and lines of JSON", () => {
    expect(parseTable("a.tsv", "a\tb\n1\t2\n", false)?.rows).toEqual([["1", "2"]]);
    expect(parseTable("a.jsonl", '{"a":1}\n{"b":[2]}\nbroken', false)).toEqual({
      head: ["a", "b"],
      rows: [
        ["1", ""],
        ["", "[2]"],
      ],
    });
  });

  it("has no table where there is none", () => {
    expect(parseTable("a.csv", "", false)).toBeNull();
    expect(parseTable("a.jsonl", "no objects", false)).toBeNull();
  });
});
