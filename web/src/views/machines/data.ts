/** Data and actions of the Machines view. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, unwrap, type Schemas } from "@/api/client";
import { showError } from "@/app/toasts";

export type Machine = Schemas["MachineDetails"];
export type Host = Schemas["HostDetails"];
export type BackendEntry = Schemas["BackendDetails"];
export type BackendKind = Schemas["BackendKindDetails"];

const REFRESH_MS = 5000;
const SLOW_REFRESH_MS = 15_000;

/** Machines as the providers list them. The answer asks every provider, so it is not requested often. */
export function useMachines() {
  return useQuery({
    queryKey: ["machines"],
    queryFn: () => unwrap(api.GET("/api/v1/machines")),
    refetchInterval: SLOW_REFRESH_MS,
  });
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

/** The result of a check, or why it failed. Checks are kept while the tab is open. */
export interface CheckResult {
  at: number;
  report?: Schemas["BackendCheckReport"];
  error?: unknown;
}

export function useChecks() {
  const queries = useQueryClient();
  const checks = useQuery<Record<string, CheckResult>>({
    queryKey: ["backend checks"],
    queryFn: () => ({}),
    staleTime: Infinity,
    initialData: {},
  });
  const remember = (name: string, result: CheckResult) =>
    queries.setQueryData<Record<string, CheckResult>>(["backend checks"], (before) => ({
      ...before,
      [name]: result,
    }));
  const check = useMutation({
    mutationFn: (name: string) =>
      unwrap(api.POST("/api/v1/backends/{name}/check", { params: { path: { name } } })),
    onSuccess: (report, name) => remember(name, { at: Date.now(), report }),
    onError: (error, name) => remember(name, { at: Date.now(), error }),
    onSettled: () => queries.invalidateQueries({ queryKey: ["backends"] }),
  });
  return { results: checks.data, check };
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
