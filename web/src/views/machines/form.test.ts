import { describe, expect, it } from "vitest";
import { fieldErrors, toRequest, type BackendOption } from "@/views/machines/form";

const option = (name: string, type: string, secret = false): BackendOption => ({
  name,
  type,
  secret,
  default: null,
  required: false,
  about: "",
});

const OPTIONS = [
  option("api_key", "a credential", true),
  option("regions", "a list of strings"),
  option("max_machines", "a whole number"),
  option("unattended", "true or false"),
  option("user", "a text"),
];

describe("toRequest", () => {
  it("sends only what was filled in, each value with its type", () => {
    const values = {
      api_key: "k",
      regions: "eu-north, us-east ,",
      max_machines: "3",
      unattended: true,
      user: "",
    };
    expect(toRequest(" cloud ", "lambda", OPTIONS, values)).toEqual({
      name: "cloud",
      kind: "lambda",
      options: { regions: ["eu-north", "us-east"], max_machines: 3, unattended: true },
      credentials: { api_key: "k" },
      replace: false,
    });
  });

  it("leaves a text that is not a number to the server, which says what is wrong", () => {
    expect(toRequest("c", "lambda", OPTIONS, { max_machines: "many" }).options).toEqual({
      max_machines: "many",
    });
  });
});

describe("fieldErrors", () => {
  it("finds the field of each problem", () => {
    const problems = [
      { place: "options.regions", message: "unknown region", suggestion: "did you mean 'eu-north'?" },
      { place: "name", message: "is taken" },
    ];
    expect(fieldErrors(problems)).toEqual({
      regions: "unknown region: did you mean 'eu-north'?",
      name: "is taken",
    });
  });
});
