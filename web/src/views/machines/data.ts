/** Data and actions of the Machines view. */

import { useMutation, useMutationState, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, unwrap, type Schemas } from "@/api/client";
import { showError } from "@/app/toasts";
import type { LiveMessage } from "@/live/connection";
import { useRefreshOnMessages } from "@/live/refresh";

export type Machine = Schemas["MachineDetails"];
export type Host = Schemas["HostDetails"];
export type BackendEntry = Schemas["BackendDetails"];
export type BackendKind = Schemas["BackendKindDetails"];

const REFRESH_MS = 5000;
const SLOW_REFRESH_MS = 15_000;
const CHANGE_DELAY_MS = 1000;
const MACHINE_EVENTS = new Set([
  "AttemptLaunched",
  "MachineStarted",
  "TrainingStarted",
  "HoldStarted",
  "AttemptReleased",
  "OrphanEnded",
]);

/**
 * Machines as the providers list them. The answer asks every provider, so it is requested when events say that a
 * machine has changed, and else seldom: more often only while a machine without a job is being ended.
 */
export function useMachines() {
  useRefreshOnMessages(["machines"], changesMachines, CHANGE_DELAY_MS);
  return useQuery({
    queryKey: ["machines"],
    queryFn: () => unwrap(api.GET("/api/v1/machines")),
    refetchInterval: ({ state }) =>
      state.data?.machines.some((each) => each.job === null) ? REFRESH_MS : SLOW_REFRESH_MS,
  });
}

function changesMachines(message: LiveMessage): boolean {
  return message.kind === "position" || (message.kind === "event" && MACHINE_EVENTS.has(message.event.type));
}

export function useHosts() {
  return useQuery({
    queryKey: ["hosts"],
    queryFn: () => unwrap(api.GET("/api/v1/hosts")),
    refetchInterval: REFRESH_MS,
  });
}

export function useBackends() {
  return useQuery({
    queryKey: ["backends"],
    queryFn: () => unwrap(api.GET("/api/v1/backends")),
    refetchInterval: SLOW_REFRESH_MS,
  });
}

export function useBackendKinds(enabled: boolean) {
  return useQuery({
    queryKey: ["backend kinds"],
    queryFn: () => unwrap(api.GET("/api/v1/backends/kinds")),
    staleTime: Infinity,
    enabled,
  });
}

const CHECK = ["check backend"];

/** Check a backend. The server keeps the result, so every tab shows it. */
export function useCheckBackend() {
  const queries = useQueryClient();
  return useMutation({
    mutationKey: CHECK,
    mutationFn: (name: string) =>
      unwrap(api.POST("/api/v1/backends/{name}/check", { params: { path: { name } } })),
    onError: (error, name) => showError(`${name} was not checked`, error),
    onSettled: () => queries.invalidateQueries({ queryKey: ["backends"] }),
  });
}

/** The names of the backends that this tab is checking now. */
export function useCheckedNow(): ReadonlySet<unknown> {
  const names = useMutationState({
    filters: { mutationKey: CHECK, status: "pending" },
    select: (each) => each.state.variables,
  });
  return new Set(names);
}

export function useAddBackend(onAdded: (entry: BackendEntry) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas["BackendRequest"]) => unwrap(api.POST("/api/v1/backends", { body })),
    onSuccess: (entry) => {
      void queries.invalidateQueries({ queryKey: ["backends"] });
      void queries.invalidateQueries({ queryKey: ["hosts"] });
      onAdded(entry);
    },
  });
}

export function useRemoveBackend() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (name: string) =>
      unwrap(api.DELETE("/api/v1/backends/{name}", { params: { path: { name } } })),
    onError: (error) => showError("The backend was not removed", error),
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["backends"] });
      void queries.invalidateQueries({ queryKey: ["hosts"] });
    },
  });
}

export function useEndMachine() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ name, force }: { name: string; force: boolean }) =>
      unwrap(api.DELETE("/api/v1/machines/{name}", { params: { path: { name }, query: { force } } })),
    onError: (error) => showError("The machine was not ended", error),
    onSettled: () => queries.invalidateQueries({ queryKey: ["machines"] }),
  });
}

export function useReleaseMachine() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (ref: string) =>
      unwrap(api.POST("/api/v1/training/{ref}/release", { params: { path: { ref } } })),
    onError: (error) => showError("The machine was not released", error),
    onSettled: () => queries.invalidateQueries({ queryKey: ["machines"] }),
  });
}

export function useSweep() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => unwrap(api.POST("/api/v1/sweep")),
    onError: (error) => showError("Leftover resources were not removed", error),
    onSettled: () => queries.invalidateQueries({ queryKey: ["machines"] }),
  });
}
