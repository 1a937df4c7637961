import { expect, it } from "vitest";
import { utcOffset } from "@/lib/timezone";

const at = (offset: number) => ({ getTimezoneOffset: () => offset }) as Date;

it("has the sign of the place, not of JavaScript", () => {
  expect([at(0), at(-120), at(210), at(-345)].map(utcOffset)).toEqual([
    "+00:00",
    "+02:00",
    "-03:30",
    "+05:45",
  ]);
});
