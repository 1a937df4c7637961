/** Send a draft: upload its files, submit the job once, and show the server's errors at their fields. */

import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { api, asProblem, unwrap, type ApiProblem } from "@/api/client";
import type { Draft } from "@/views/new/draft";
import { forgetDraft } from "@/views/new/draft-storage";
import { uploadSnapshot, type Progress } from "@/views/new/files/upload";
import { isPaid } from "@/views/new/offers";
import { fieldOfPlace, isRunnable, sendsFiles, submitSpec } from "@/views/new/spec";

export interface Submission {
  submit: () => void;
  /** What happens now; null if nothing is being sent. */
  state: "files" | "job" | null;
  progress: Progress | null;
  problem: ApiProblem | null;
  /** Messages by form field. */
  errors: Record<string, string>;
  dismiss: () => void;
}

export function useSubmit(draft: Draft, key: string): Submission {
  const navigate = useNavigate();
  const [state, setState] = useState<"files" | "job" | null>(null);
  const [progress, setProgress] = useState<Progress | null>(null);
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const idempotencyKey = useRef("");
  const running = useRef(false);

  // A changed draft is another job. The same draft sent again, after a lost answer, is the same job.
  useEffect(() => {
    idempotencyKey.current = "";
  }, [draft]);

  const send = async (): Promise<void> => {
    setProblem(null);
    try {
      const manifest = sendsFiles(draft) ? await uploadFiles(draft, setState, setProgress) : null;
      setState("job");
      idempotencyKey.current ||= randomKey();
      const submitted = await postJob(draft, manifest, idempotencyKey.current);
      forgetDraft(key);
      await navigate({ to: "/jobs/$ref", params: { ref: submitted.id } });
      forgetDraft(key);
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      running.current = false;
      setState(null);
      setProgress(null);
    }
  };

  const submit = () => {
    if (running.current || !isRunnable(draft)) return;
    running.current = true;
    void send();
  };
  return { submit, state, progress, problem, errors: fieldErrors(problem), dismiss: () => setProblem(null) };
}

async function uploadFiles(
  draft: Draft,
  onState: (state: "files") => void,
  onProgress: (progress: Progress) => void,
): Promise<string> {
  onState("files");
  const limits = await unwrap(api.GET("/api/v1/snapshots/limits"));
  return await uploadSnapshot(draft.files, limits, onProgress);
}

async function postJob(draft: Draft, manifest: string | null, key: string) {
  const spec = submitSpec(draft, manifest, draft.pin !== null && isPaid(draft.pin));
  const params = { header: { "Idempotency-Key": key } };
  return await unwrap(api.POST("/api/v1/training", { params, body: spec as never }));
}

function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return the messages of a problem by form field. The first message of a field is shown. */
export function fieldErrors(problem: ApiProblem | null): Record<string, string> {
  const errors: Record<string, string> = {};
  for (const each of problem?.body.problems ?? []) {
    const field = fieldOfPlace(each.place);
    if (field !== null) errors[field] ??= [each.message, each.suggestion].filter(Boolean).join("; ");
  }
  return errors;
}
