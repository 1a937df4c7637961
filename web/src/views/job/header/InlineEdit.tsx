import { useState, type KeyboardEvent } from "react";
import { focusOnMount } from "@/lib/focus";
import { Button, IconButton } from "@/ui/Button";

interface InlineEditProps {
  label: string;
  value: string;
  onSave: (value: string) => void;
  onClose: () => void;
}

/** A text that is edited in place: Enter saves, Escape leaves it as it was. */
export function InlineEdit({ label, value, onSave, onClose }: InlineEditProps) {
  const [text, setText] = useState(value);
  const save = () => {
    if (text.trim() !== value) onSave(text.trim());
    onClose();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter") save();
    if (event.key === "Escape") onClose();
  };
  return (
    <span className="inline-edit">
      <span className="field">
        <input
          ref={focusOnMount}
          aria-label={label}
          maxLength={200}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={onKeyDown}
        />
      </span>
      <Button onClick={save}>Save</Button>
      <IconButton icon="close" label="Leave it as it was" onClick={onClose} />
    </span>
  );
}

interface NotesProps {
  notes: string;
  editable: boolean;
  writing: boolean;
  onWrite: (writing: boolean) => void;
  onSave: (notes: string) => void;
}

/** Free text about the job, below its title. */
export function Notes({ notes, editable, writing, onWrite, onSave }: NotesProps) {
  if (writing) return <NotesField notes={notes} onSave={onSave} onClose={() => onWrite(false)} />;
  if (notes === "") return null;
  return (
    <p className="job-notes">
      {notes}{" "}
      {editable && (
        <button type="button" className="link-quiet" onClick={() => onWrite(true)}>
          Edit the note
        </button>
      )}
    </p>
  );
}

interface NotesFieldProps {
  notes: string;
  onSave: (notes: string) => void;
  onClose: () => void;
}

function NotesField({ notes, onSave, onClose }: NotesFieldProps) {
  const [draft, setDraft] = useState(notes);
  const save = () => {
    if (draft.trim() !== notes) onSave(draft.trim());
    onClose();
  };
  return (
    <div className="job-notes editing">
      <textarea
        ref={focusOnMount}
        aria-label="Notes"
        rows={3}
        maxLength={10_000}
        value={draft}
        onChange={(event) => setDraft(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") onClose();
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save();
        }}
      />
      <span className="row">
        <Button onClick={save}>Save</Button>
        <Button look="quiet" onClick={onClose}>
          Leave it as it was
        </Button>
      </span>
    </div>
  );
}
