/** What the project does and spends now, for the sidebar. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { api, unwrap } from "@/api/client";
import { utcOffset } from "@/lib/timezone";
import { useProjectMessages } from "@/live/hooks";

const REFRESH_MS = 60_000;
const AFTER_EVENT_MS = 1500;
/** Events after which the numbers differ. */
const COUNTED =
  /^(Job(Submitted|Completed|Failed|Cancelled|Deleted)|Attempt(Launching|Launched|Claimed|Released)|Machine)/;

export function useProjectSummary() {
  const client = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useProjectMessages((messages) => {
    const counts = messages.some(
      (each) => each.kind === "position" || (each.kind === "event" && COUNTED.test(each.event.type)),
    );
    if (!counts || timer.current !== null) return;
    timer.current = setTimeout(() => {
      timer.current = null;
      void client.invalidateQueries({ queryKey: ["summary"] });
    }, AFTER_EVENT_MS);
  });
  useEffect(() => () => clearTimeout(timer.current ?? undefined), []);
  return useQuery({
    queryKey: ["summary"],
    queryFn: () =>
      unwrap(api.GET("/api/v1/summary", { params: { query: { timezone: utcOffset(new Date()) } } })),
    refetchInterval: REFRESH_MS,
  });
}
