import { describe, expect, it } from "vitest";
import { matchShortcut, usableShortcuts, type Shortcut } from "@/app/shortcuts";

const shortcut = (keys: string): Shortcut => ({ keys, label: keys, group: "", run: () => undefined });
const all = ["j", "g j", "g c", "mod+k"].map(shortcut);

describe("matchShortcut", () => {
  it("finds a single key", () => {
    expect(matchShortcut(all, "", "j")).toBe(all[0]);
  });

  it("waits for the second key of a sequence", () => {
    expect(matchShortcut(all, "", "g")).toBe("prefix");
    expect(matchShortcut(all, "g", "j")).toBe(all[1]);
  });

  it("finds a combination", () => {
    expect(matchShortcut(all, "", "mod+k")).toBe(all[3]);
  });

  it("ignores other keys", () => {
    expect(matchShortcut(all, "g", "q")).toBeNull();
  });
});

describe("usableShortcuts", () => {
  it("leaves out general shortcuts that a view replaces or has no use for", () => {
    const general = (keys: string, usable: boolean) => ({ ...shortcut(keys), usable: () => usable });
    const own = shortcut("/");
    const next = general("j", true);
    expect(usableShortcuts([own, general("/", true), next, general("k", false)])).toEqual([own, next]);
  });
});
