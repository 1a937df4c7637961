import { asProblem } from "@/api/client";

/** What went wrong and what to do, in one text. */
export function problemText(error: unknown): string {
  const { body } = asProblem(error);
  return [body.detail ?? body.title, body.hint].filter(Boolean).join(" ");
}
