import { useSyncExternalStore } from "react";

const SMALL = window.matchMedia("(max-width: 760px)");

/** Whether the screen is as narrow as a phone, where tables become cards. */
export function useIsSmall(): boolean {
  return useSyncExternalStore(
    (listener) => {
      SMALL.addEventListener("change", listener);
      return () => SMALL.removeEventListener("change", listener);
    },
    () => SMALL.matches,
  );
}
