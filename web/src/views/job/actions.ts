/** The requests that change a job. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, unwrap, type Schemas } from "@/api/client";
import { showError } from "@/app/toasts";
import { jobKey } from "@/views/job/data";
import type { Job } from "@/views/job/merge";

export type JobEdit = Partial<Schemas["JobEdit"]>;

const NO_EDIT = { name: null, tags: null, notes: null };

/** The requests of the page. Each puts the answer into the page at once; a failure is told in a message. */
export function useJobActions(job: Job, ref: string) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const params = { params: { path: { ref: job.id } } };
  const keep = (answer: Job) => {
    client.setQueryData(jobKey(ref), answer);
    void client.invalidateQueries({ queryKey: ["jobs"] });
  };
  const failed = (title: string) => (error: unknown) => showError(title, error);
  return {
    cancel: useMutation({
      mutationFn: () => unwrap(api.POST("/api/v1/training/{ref}/cancel", params)),
      onSuccess: keep,
      onError: failed("The job could not be cancelled"),
    }),
    start: useMutation({
      mutationFn: () => unwrap(api.POST("/api/v1/training/{ref}/start", params)),
      onSuccess: keep,
      onError: failed("The job could not be started"),
    }),
    release: useMutation({
      mutationFn: () => unwrap(api.POST("/api/v1/training/{ref}/release", params)),
      onSuccess: keep,
      onError: failed("The machine could not be released"),
    }),
    migrate: useMutation({
      mutationFn: (to: string) =>
        unwrap(api.POST("/api/v1/training/{ref}/migrate", { ...params, body: { to } })),
      onSuccess: keep,
      onError: failed("The job could not be migrated"),
    }),
    resume: useMutation({
      mutationFn: (step: number | null) => {
        const body: Record<string, never> = {};
        const chosen = step === null ? body : { resume_from: step };
        return unwrap(
          api.POST("/api/v1/training/{ref}/resume", { ...params, body: chosen as Record<string, never> }),
        );
      },
      onSuccess: (answer) => void navigate({ to: "/jobs/$ref", params: { ref: answer.id } }),
      onError: failed("The job could not be resumed"),
    }),
    remove: useMutation({
      mutationFn: () => unwrap(api.DELETE("/api/v1/training/{ref}", params)),
      onSuccess: async () => {
        await navigate({ to: "/jobs" });
        client.removeQueries({ queryKey: jobKey(ref) });
      },
      onError: failed("The job could not be deleted"),
    }),
    edit: useMutation({
      mutationFn: (edit: JobEdit) =>
        unwrap(api.PATCH("/api/v1/training/{ref}", { ...params, body: { ...NO_EDIT, ...edit } })),
      onSuccess: keep,
      onError: failed("The change could not be saved"),
    }),
  };
}

export type JobRequests = ReturnType<typeof useJobActions>;
