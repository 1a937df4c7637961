import { Link } from "@tanstack/react-router";
import { useState, type KeyboardEvent } from "react";
import { focusOnMount } from "@/lib/focus";
import { Icon } from "@/ui/Icon";

interface TagListProps {
  tags: readonly string[];
  editable: boolean;
  onAdd: (tag: string) => void;
  onRemove: (tag: string) => void;
}

/** The tags of a job. A tag leads to the jobs that have it; editors can add and remove tags. */
export function TagList({ tags, editable, onAdd, onRemove }: TagListProps) {
  const [adding, setAdding] = useState(false);
  return (
    <span className="tags">
      {tags.map((tag) => (
        <span key={tag} className="tag">
          <Link to="/jobs" search={{ tag }} title={`Jobs with the tag ${tag}`}>
            {tag}
          </Link>
          {editable && (
            <button type="button" aria-label={`Remove the tag ${tag}`} onClick={() => onRemove(tag)}>
              <Icon name="close" size={12} />
            </button>
          )}
        </span>
      ))}
      {editable && !adding && (
        <button type="button" className="tag line" aria-label="Add a tag" onClick={() => setAdding(true)}>
          <Icon name="plus" size={12} />
        </button>
      )}
      {adding && (
        <TagField onClose={() => setAdding(false)} onAdd={(tag) => !tags.includes(tag) && onAdd(tag)} />
      )}
    </span>
  );
}

function TagField({ onAdd, onClose }: { onAdd: (tag: string) => void; onClose: () => void }) {
  const [text, setText] = useState("");
  const finish = () => {
    if (text.trim() !== "") onAdd(text.trim());
    onClose();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter") finish();
    if (event.key === "Escape") onClose();
  };
  return (
    <span className="field tag-field">
      <input
        ref={focusOnMount}
        aria-label="New tag"
        maxLength={100}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
        onBlur={finish}
      />
    </span>
  );
}
