/** Read data of the server again when events of the project say that it has changed. */

import { useQueryClient, type QueryKey } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import type { LiveMessage } from "@/live/connection";
import { useProjectMessages } from "@/live/hooks";

/** Invalidate the queries of `key` soon after relevant messages, at most once in `delayMs`. */
export function useRefreshOnMessages(
  key: QueryKey,
  isRelevant: (message: LiveMessage) => boolean,
  delayMs: number,
): void {
  const client = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useProjectMessages((messages) => {
    if (timer.current !== undefined || !messages.some(isRelevant)) return;
    timer.current = setTimeout(() => {
      timer.current = undefined;
      void client.invalidateQueries({ queryKey: key });
    }, delayMs);
  });
  useEffect(() => () => clearTimeout(timer.current), []);
}
