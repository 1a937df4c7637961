/** Read what the user drops or picks: files and folders become files of the draft. */

import type { DraftFile } from "@/views/new/draft";
import { walkFolder, type Folder, type FoundFile, type Listing } from "@/views/new/files/ignore";
import { hashOf } from "@/views/new/files/hash";

export const MAX_TEXT_BYTES = 512 * 1024;

/** Contents of files that the editor does not show, by hash. They live as long as the page. */
export const contents = new Map<string, Blob>();

/** Return the draft's form of a file. A text file keeps its text; of other files only the hash is kept. */
export async function readFile({ path, file }: FoundFile): Promise<DraftFile> {
  if (file.size <= MAX_TEXT_BYTES) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    const text = asText(bytes);
    if (text !== null) {
      return { path, text, size: bytes.length, sha256: null, executable: text.startsWith("#!") };
    }
  }
  const sha256 = await hashOf(file);
  contents.set(sha256, file);
  const start = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  return { path, text: null, size: file.size, sha256, executable: start[0] === 0x23 && start[1] === 0x21 };
}

/** Return the text of UTF-8 bytes; null for a binary file. */
export function asText(bytes: Uint8Array): string | null {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** Return the files of a drop. One dropped folder is the working directory itself; several keep their names. */
export async function readDrop(items: readonly FileSystemEntry[], maxFiles: number): Promise<FoundFile[]> {
  const [first] = items;
  if (items.length === 1 && first !== undefined && first.isDirectory) {
    return await walkFolder(entryFolder(first as FileSystemDirectoryEntry), maxFiles);
  }
  return await walkFolder({ list: () => Promise.resolve(listingOf(items)) }, maxFiles);
}

/** Return the files of a drop that has no entries, for example one that another program made. */
export function droppedFiles(transfer: DataTransfer): File[] {
  return [...transfer.files];
}

/** Return the dropped files and folders. Must be called in the event handler: the browser clears them later. */
export function droppedEntries(transfer: DataTransfer): FileSystemEntry[] {
  return [...transfer.items]
    .map((item) => item.webkitGetAsEntry())
    .filter((entry): entry is FileSystemEntry => entry !== null);
}

/** Return the files of a picked folder, with paths inside of it, or of picked files. */
export async function readPicked(files: readonly File[], maxFiles: number): Promise<FoundFile[]> {
  const root = new PickedFolder();
  for (const file of files) {
    const parts = file.webkitRelativePath.split("/").slice(1);
    root.add(parts.length > 0 ? parts : [file.name], file);
  }
  return await walkFolder(root, maxFiles);
}

function listingOf(entries: readonly FileSystemEntry[]): Listing {
  const listing: Listing = { files: [], folders: [] };
  for (const entry of entries) {
    if (entry.isDirectory) {
      listing.folders.push({ name: entry.name, folder: entryFolder(entry as FileSystemDirectoryEntry) });
    } else if (entry.isFile) {
      listing.files.push({ name: entry.name, open: () => openEntry(entry as FileSystemFileEntry) });
    }
  }
  return listing;
}

function entryFolder(entry: FileSystemDirectoryEntry): Folder {
  return { list: async () => listingOf(await readEntries(entry.createReader())) };
}

/** The browser returns the entries of a folder in parts of about a hundred. */
async function readEntries(reader: FileSystemDirectoryReader): Promise<FileSystemEntry[]> {
  const all: FileSystemEntry[] = [];
  for (;;) {
    const part = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (part.length === 0) return all;
    all.push(...part);
  }
}

function openEntry(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}

/** The folder that a file field with `webkitdirectory` returns as a flat list. */
class PickedFolder implements Folder {
  private readonly files = new Map<string, File>();
  private readonly folders = new Map<string, PickedFolder>();

  add(parts: readonly string[], file: File): void {
    const [name = "", ...rest] = parts;
    if (rest.length === 0) {
      this.files.set(name, file);
      return;
    }
    const folder = this.folders.get(name) ?? new PickedFolder();
    this.folders.set(name, folder);
    folder.add(rest, file);
  }

  list(): Promise<Listing> {
    return Promise.resolve({
      files: [...this.files].map(([name, file]) => ({ name, open: () => Promise.resolve(file) })),
      folders: [...this.folders].map(([name, folder]) => ({ name, folder })),
    });
  }
}
