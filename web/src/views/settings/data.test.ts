import { expect, it } from "vitest";
import { grantableRoles, secretNameProblem } from "@/views/settings/data";

it("offers only roles up to the own one", () => {
  expect(grantableRoles("admin")).toEqual(["viewer", "member", "admin"]);
  expect(grantableRoles("viewer")).toEqual(["viewer"]);
  expect(grantableRoles("unknown")).toEqual([]);
});

it("checks the name of a secret as the server does", () => {
  expect(secretNameProblem("HF_TOKEN")).toBeUndefined();
  expect(secretNameProblem("team/key.v2")).toBeUndefined();
  expect(secretNameProblem("has space")).toMatch("letters");
  expect(secretNameProblem("-x")).toMatch("starting");
});
