import { expect, it, vi } from "vitest";
import { isWatched, unwatchJob, watchJob } from "@/app/watched";

it("watches a job although the browser has no room to keep the list", () => {
  const setItem = vi.fn(() => {
    throw new DOMException("full", "QuotaExceededError");
  });
  vi.stubGlobal("localStorage", { setItem });
  watchJob("a");
  expect(isWatched("a")).toBe(true);
  unwatchJob("a");
  expect(isWatched("a")).toBe(false);
  expect(setItem).toHaveBeenCalledTimes(2);
  vi.unstubAllGlobals();
});
