/** The queue: read when the view opens, after each change of a job, and every 15 s for the predicted starts. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, unwrap, type Schemas } from "@/api/client";
import { showError } from "@/app/toasts";
import { useRefreshOnMessages } from "@/live/refresh";

export type WaitingJob = Schemas["QueuedJob"];
export type RunningJob = Schemas["RunningJob"];
export type Slot = Schemas["BackendSlot"] | Schemas["UnavailableSlot"];

const KEY = ["queue"];
const REFRESH_MS = 15_000;
const CHANGE_DELAY_MS = 500;

export function useQueue() {
  useRefreshOnMessages(KEY, ({ kind }) => kind === "event" || kind === "position", CHANGE_DELAY_MS);
  return useQuery({
    queryKey: KEY,
    queryFn: () => unwrap(api.GET("/api/v1/queue")),
    refetchInterval: REFRESH_MS,
  });
}

/** Start a waiting job before the other waiting jobs of the project. */
export function useStartNow() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) =>
      unwrap(api.POST("/api/v1/training/{ref}/start", { params: { path: { ref: id } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: KEY }),
    onError: (error) => showError("The job could not be started", error),
  });
}
