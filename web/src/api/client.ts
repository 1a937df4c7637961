/** The typed HTTP client. `schema.d.ts` is generated from the server's OpenAPI document. */

import createClient from "openapi-fetch";
import type { components, paths } from "@/api/schema";

export type Schemas = components["schemas"];

/** The body of an error answer (RFC 9457). */
export interface ProblemBody {
  title: string;
  status: number;
  code: string;
  detail?: string;
  hint?: string;
  retryable?: boolean;
  problems?: { place: string; message: string; suggestion?: string }[];
  [field: string]: unknown;
}

/** An answer of the server that is not a success, or no answer at all (status 0). */
export class ApiProblem extends Error {
  constructor(readonly body: ProblemBody) {
    super(body.detail ?? body.title);
    this.name = "ApiProblem";
  }

  get status(): number {
    return this.body.status;
  }

  get code(): string {
    return this.body.code;
  }
}

const UNREACHABLE: ProblemBody = {
  title: "Server unreachable",
  status: 0,
  code: "unreachable",
  detail: "The server did not answer.",
  hint: "Check that the server runs: anygpu up. The page tries again by itself.",
  retryable: true,
};

export const api = createClient<paths>({ credentials: "same-origin" });

/** Return the data of an answer, or throw an ApiProblem. */
export async function unwrap<T>(
  answer: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<T> {
  let result;
  try {
    result = await answer;
  } catch {
    throw new ApiProblem(UNREACHABLE);
  }
  if (result.response.ok) return result.data as T;
  throw toProblem(result.error, result.response);
}

/** Throw an ApiProblem if a plain `fetch` was not a success. */
export async function requireOk(response: Response): Promise<Response> {
  if (response.ok) return response;
  const text = await response.text();
  throw toProblem(parseJson(text), response);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function toProblem(error: unknown, response: Response): ApiProblem {
  if (typeof error === "object" && error !== null && "code" in error) {
    return new ApiProblem(error as ProblemBody);
  }
  const detail = `The server answered with status ${response.status}.`;
  return new ApiProblem({ title: "Unexpected answer", status: response.status, code: "unexpected", detail });
}

export function asProblem(error: unknown): ApiProblem {
  if (error instanceof ApiProblem) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new ApiProblem({ title: "Error in the page", status: -1, code: "page_error", detail });
}
