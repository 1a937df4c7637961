/** Add files and folders to the draft, from a menu. */

import { useRef } from "react";
import { showError } from "@/app/toasts";
import { Button } from "@/ui/Button";
import { Menu } from "@/ui/Menu";
import { withFiles, type Draft } from "@/views/new/draft";
import { TooManyFiles, type FoundFile } from "@/views/new/files/ignore";
import { readFile } from "@/views/new/files/read";

export const MAX_FILES = 20_000;

/** Return a function that reads files and adds them to the draft, or says why that failed. */
export function useAddFiles(update: (change: (draft: Draft) => Draft) => void) {
  return async (find: () => Promise<FoundFile[]>): Promise<void> => {
    try {
      const files = await Promise.all((await find()).map(readFile));
      update((current) => withFiles(current, files));
    } catch (error) {
      const detail = new Error(`The folder has more than ${MAX_FILES} files. Add those that the job needs.`);
      showError("The files could not be read", error instanceof TooManyFiles ? detail : error);
    }
  };
}

export function AddFiles({ onAdd }: { onAdd: (files: File[]) => void }) {
  const files = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);
  const picked = (input: HTMLInputElement) => {
    onAdd([...(input.files ?? [])]);
    input.value = "";
  };
  return (
    <>
      <Menu
        trigger={
          <Button look="quiet" icon="folder" className="push">
            Add files<span className="wide-only"> or a folder</span>
          </Button>
        }
        items={[
          { label: "Files", icon: "file", onSelect: () => files.current?.click() },
          {
            label: "Folder",
            icon: "folder",
            detail: "without what .gitignore names",
            onSelect: () => folder.current?.click(),
          },
        ]}
      />
      <input
        ref={files}
        type="file"
        multiple
        hidden
        aria-label="Files"
        onChange={(event) => picked(event.target)}
      />
      <input
        ref={folder}
        type="file"
        hidden
        aria-label="Folder"
        onChange={(event) => picked(event.target)}
        {...{ webkitdirectory: "" }}
      />
    </>
  );
}
