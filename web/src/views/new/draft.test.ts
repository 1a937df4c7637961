import { describe, expect, test } from "vitest";
import {
  emptyDraft,
  pathProblem,
  scriptOf,
  textFile,
  withFiles,
  withRenamed,
  withText,
  withoutFile,
  type Draft,
} from "@/views/new/draft";

function draftWith(...paths: string[]): Draft {
  return withFiles(
    emptyDraft(),
    paths.map((path) => textFile(path, "x = 1\n")),
  );
}

describe("files of a draft", () => {
  test("the first file makes room for added ones while it is empty", () => {
    expect(draftWith("main.py", "lib/net.py").files.map((file) => file.path)).toEqual([
      "lib/net.py",
      "main.py",
    ]);
    const written = withText(emptyDraft(), "train.py", "print(1)");
    expect(withFiles(written, [textFile("a.py", "")]).files).toHaveLength(2);
  });

  test("the script is the chosen file, else one with a usual name, else the first Python file", () => {
    expect(scriptOf(draftWith("zzz.py", "main.py", "train.py"))).toBe("train.py");
    expect(scriptOf(draftWith("zzz.py", "abc.py"))).toBe("abc.py");
    expect(scriptOf({ ...draftWith("zzz.py", "train.py"), script: "zzz.py" })).toBe("zzz.py");
    expect(scriptOf(draftWith("data.csv"))).toBe("");
  });

  test("a renamed file stays open and stays the script", () => {
    const draft = withRenamed(
      { ...draftWith("train.py", "a.py"), open: "a.py", script: "a.py" },
      "a.py",
      "b.py",
    );
    expect([draft.open, draft.script]).toEqual(["b.py", "b.py"]);
  });

  test("removing the last file leaves an empty one", () => {
    expect(withoutFile(draftWith("a.py"), "a.py").files).toEqual([textFile("train.py", "")]);
  });

  test("a file that starts with #! is executable", () => {
    expect(textFile("run.sh", "#!/bin/sh\n").executable).toBe(true);
    expect(withText(draftWith("run.sh"), "run.sh", "#!/bin/sh\n").files[0]?.executable).toBe(true);
  });

  test.each(["", "../x.py", "/etc/passwd", "a//b", "a\\b", "./a", "a.py", "lib"])(
    "%j is not a valid new path",
    (path) => {
      expect(pathProblem(draftWith("a.py", "lib/net.py"), path)).not.toBe("");
    },
  );

  test("sizes count bytes, not characters", () => {
    expect(textFile("a.txt", "é").size).toBe(2);
  });
});
