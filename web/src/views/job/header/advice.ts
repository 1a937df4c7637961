import type { Schemas } from "@/api/client";

const BY_CODE: Record<string, string> = {
  exit_code: "Read the end of the log, correct the script and submit it again.",
  crashed: "Read the end of the log, correct the script and submit it again.",
  out_of_memory: "Ask for more memory (resources.memory), or use a smaller batch or fewer workers.",
  killed: "Something ended the process from outside. Often the machine had too little memory: ask for more.",
  failed_to_start: "Check the path of the script and the packages that it needs.",
  timeout: "Raise limits.timeout and resume the job from its newest checkpoint.",
  budget: "Raise limits.max_cost and resume the job from its newest checkpoint.",
  deadline: "Give more time, or allow faster machines.",
  no_capacity: "Allow more backends or other GPUs, or submit it again later.",
};

const BY_BLAME: Record<string, string> = {
  user: "Correct the script or the spec and submit it again.",
  launch: "No machine could be started. Check the backend on the machines page.",
  infrastructure: "The machine failed, not your script. Resume the job; it may use another machine.",
  preemption:
    "The machine was taken back too often. Allow on-demand machines, or save checkpoints more often.",
  platform: "A limit of the job was reached. Raise it and resume the job.",
};

/** What to do about a failure, in one or two sentences. */
export function failureAdvice(failure: Schemas["JobFailure"]): string {
  return BY_CODE[failure.code] ?? BY_BLAME[failure.blame] ?? "Read the log and the events.";
}
