import { describe, expect, it } from "vitest";
import { createSession, type Ability } from "@/app/session";

const identity = (role: string) => ({
  organisation: "local",
  project: "default",
  person: "me",
  role,
  server_version: "0.1.0",
  agent_url: "",
});

describe("createSession", () => {
  it.each<[string, Ability[]]>([
    ["viewer", []],
    ["member", ["write"]],
    ["admin", ["write", "admin"]],
    ["operator", ["write", "admin", "operate"]],
    ["unknown", []],
  ])("%s may %j", (role, abilities) => {
    const { can } = createSession(identity(role));
    expect((["write", "admin", "operate"] as const).filter(can)).toEqual(abilities);
  });
});
