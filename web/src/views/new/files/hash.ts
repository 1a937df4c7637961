/** SHA-256 in the browser. `crypto.subtle` exists only on https and localhost, so a library computes the hash. */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

const PIECE_BYTES = 1 << 20;

export function hashBytes(bytes: Uint8Array): string {
  return bytesToHex(sha256(bytes));
}

/** Hash a file in pieces, so that a large one does not block the page. */
export async function hashOf(blob: Blob): Promise<string> {
  const hash = sha256.create();
  for (let start = 0; start < blob.size; start += PIECE_BYTES) {
    hash.update(new Uint8Array(await blob.slice(start, start + PIECE_BYTES).arrayBuffer()));
  }
  return bytesToHex(hash.digest());
}
