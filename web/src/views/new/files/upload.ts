/** Send the files of a draft as a snapshot: the contents that the server does not have, then the list of files. */

import { api, ApiProblem, requireOk, unwrap, type Schemas } from "@/api/client";
import { formatBytes, formatCount } from "@/lib/format";
import { totalSize, type DraftFile } from "@/views/new/draft";
import { hashBytes } from "@/views/new/files/hash";
import { contents } from "@/views/new/files/read";

const ASK_COUNT = 5_000;
const BATCH_BYTES = 8 << 20;
const BATCH_FILES = 500;
const LARGE_BYTES = 1 << 20;

export interface Progress {
  sentBytes: number;
  totalBytes: number;
}

interface Content {
  path: string;
  sha256: string;
  size: number;
  /** Null if the page does not have the content, for example after a reload. */
  blob: Blob | null;
}

/** Upload a snapshot and return the hash that identifies it. */
export async function uploadSnapshot(
  files: readonly DraftFile[],
  limits: Schemas["UploadLimits"],
  onProgress: (progress: Progress) => void,
): Promise<string> {
  checkSize(files, limits);
  const described = files.filter((file) => !isPlaceholder(file)).map(describe);
  const missing = await findMissing(described.flatMap((each) => each.content ?? []));
  await sendContents(missing, onProgress);
  const list = JSON.stringify({ files: described.map((each) => each.entry) });
  const bytes = new TextEncoder().encode(list);
  const sha256 = hashBytes(bytes);
  await put(sha256, new Blob([bytes]));
  return sha256;
}

/** An empty first file that the user has not touched is not part of the job. */
function isPlaceholder(file: DraftFile): boolean {
  return file.path === "train.py" && file.text === "";
}

function checkSize(files: readonly DraftFile[], limits: Schemas["UploadLimits"]): void {
  const total = totalSize(files);
  if (total <= limits.snapshot_bytes && files.length <= limits.snapshot_files) return;
  const largest = [...files].sort((one, other) => other.size - one.size).slice(0, 3);
  const named = largest.map((file) => `${file.path} (${formatBytes(file.size)})`).join(", ");
  throw problem(
    `The job has ${formatBytes(total)} in ${formatCount(files.length)} files; the limit is ` +
      `${formatBytes(limits.snapshot_bytes)} and ${formatCount(limits.snapshot_files)} files. The largest: ${named}.`,
    "Remove large files, and give data as a dataset.",
  );
}

function problem(detail: string, hint: string): ApiProblem {
  return new ApiProblem({ title: "Files cannot be sent", status: -1, code: "files", detail, hint });
}

function describe(file: DraftFile): { entry: Record<string, unknown>; content: Content | null } {
  if (file.link !== undefined) return { entry: { path: file.path, link: file.link }, content: null };
  const bytes = file.text === null ? null : new TextEncoder().encode(file.text);
  const sha256 = bytes === null ? (file.sha256 ?? "") : hashBytes(bytes);
  const size = bytes === null ? file.size : bytes.length;
  const blob = bytes === null ? (contents.get(sha256) ?? null) : new Blob([bytes]);
  const entry = { path: file.path, size, sha256, executable: file.executable };
  return { entry, content: size === 0 ? null : { path: file.path, sha256, size, blob } };
}

async function findMissing(all: readonly Content[]): Promise<Content[]> {
  const byHash = new Map(all.map((content) => [content.sha256, content]));
  const hashes = [...byHash.keys()];
  const missing: Content[] = [];
  for (let start = 0; start < hashes.length; start += ASK_COUNT) {
    const body = { sha256: hashes.slice(start, start + ASK_COUNT) };
    const answer = await unwrap(api.POST("/api/v1/snapshots/missing", { body }));
    missing.push(...answer.missing.flatMap((sha256) => byHash.get(sha256) ?? []));
  }
  const lost = missing.find((content) => content.blob === null);
  if (lost !== undefined) {
    throw problem(
      `The content of ${lost.path} is no longer in this page.`,
      "Add the file again, or remove it.",
    );
  }
  return missing;
}

async function sendContents(
  missing: readonly Content[],
  onProgress: (progress: Progress) => void,
): Promise<void> {
  const totalBytes = missing.reduce((sum, content) => sum + content.size, 0);
  let sentBytes = 0;
  const report = (bytes: number) => {
    sentBytes += bytes;
    onProgress({ sentBytes, totalBytes });
  };
  if (totalBytes > 0) report(0);
  for (const batch of batches(missing.filter((content) => content.size < LARGE_BYTES))) {
    await sendBatch(batch);
    report(batch.reduce((sum, content) => sum + content.size, 0));
  }
  for (const content of missing.filter((each) => each.size >= LARGE_BYTES)) {
    await put(content.sha256, content.blob ?? new Blob());
    report(content.size);
  }
}

export function batches<T extends { size: number }>(all: readonly T[]): T[][] {
  const made: T[][] = [];
  let current: T[] = [];
  let size = 0;
  for (const content of all) {
    if (current.length > 0 && (current.length >= BATCH_FILES || size + content.size > BATCH_BYTES)) {
      made.push(current);
      current = [];
      size = 0;
    }
    current.push(content);
    size += content.size;
  }
  return current.length > 0 ? [...made, current] : made;
}

async function sendBatch(batch: readonly Content[]): Promise<void> {
  const body = new Blob(batch.flatMap((each) => [`${each.sha256} ${each.size}\n`, each.blob ?? ""]));
  await send("POST", "/api/v1/snapshots/contents", body);
}

async function put(sha256: string, body: Blob): Promise<void> {
  await send("PUT", `/api/v1/uploads/${sha256}`, body);
}

async function send(method: string, path: string, body: Blob): Promise<void> {
  const headers = { "Content-Type": "application/octet-stream" };
  let response;
  try {
    response = await fetch(path, { method, body, headers, credentials: "same-origin" });
  } catch {
    throw problem(
      "The connection to the server ended while files were sent.",
      "Submit again: only the rest is sent.",
    );
  }
  await requireOk(response);
}
