import { TextArea } from "@/ui/TextArea";
import type { Draft } from "@/views/new/draft";

interface CommandFieldProps {
  draft: Draft;
  update: (change: (draft: Draft) => Draft) => void;
  errors: Record<string, string>;
}

/** A shell command. The files below are its working directory. */
export function CommandField({ draft, update, errors }: CommandFieldProps) {
  const error = errors.command;
  return (
    <div className="command-field">
      <TextArea
        label="Command"
        className="mono"
        rows={2}
        value={draft.command}
        placeholder="torchrun --nproc-per-node=2 train.py --epochs 3"
        spellCheck={false}
        onChange={(command) => update((current) => ({ ...current, command }))}
        {...(error === undefined ? {} : { error })}
        hint="It runs in a shell, in the directory with the files below."
      />
    </div>
  );
}
