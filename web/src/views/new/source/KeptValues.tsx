import { useId, useMemo } from "react";
import { Icon } from "@/ui/Icon";
import type { Draft } from "@/views/new/draft";
import { keptValues, withoutKept } from "@/views/new/kept";

interface KeptValuesProps {
  draft: Draft;
  update: (change: (draft: Draft) => Draft) => void;
}

/** What the new job has from the cloned one and the form cannot show. Each value can be removed. */
export function KeptValues({ draft, update }: KeptValuesProps) {
  const id = useId();
  const kept = useMemo(() => keptValues(draft), [draft]);
  if (kept.length === 0) return null;
  return (
    <div className="kept">
      <span id={id} className="field-label">
        Kept from the cloned job
      </span>
      <ul aria-labelledby={id}>
        {kept.map(({ place, text }) => (
          <li key={place} className="chip">
            <span className="k">{place}</span>
            <span className="v cut" title={text}>
              {text}
            </span>
            <button
              type="button"
              aria-label={`Remove ${place}`}
              onClick={() => update((current) => withoutKept(current, place))}
            >
              <Icon name="close" size={12} />
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
