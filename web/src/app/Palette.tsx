import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Dialog as Primitive } from "radix-ui";
import { useDeferredValue, useId, useRef, useState, type KeyboardEvent } from "react";
import { api, unwrap } from "@/api/client";
import { NAVIGATION } from "@/app/navigation";
import { closeOverlay } from "@/app/palette-state";
import { useSession } from "@/app/session";
import { activeShortcuts, PALETTE_KEYS } from "@/app/shortcuts";
import { shortId } from "@/lib/format";
import { useReturnedFocus } from "@/ui/Dialog";
import { Icon, type IconName } from "@/ui/Icon";

interface Entry {
  id: string;
  group: string;
  label: string;
  detail?: string;
  keys?: string;
  icon: IconName;
  run: () => void;
}

const MAX_JOBS = 8;

/** Search for jobs and run commands by name. */
export function Palette() {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const entries = useEntries(text);
  const list = useId();
  const index = Math.min(chosen, entries.length - 1);
  const toRun = useRef<Entry | null>(null);
  const { remember, giveBack } = useReturnedFocus();
  const run = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    toRun.current = entry;
    closeOverlay();
  };
  /** Run the entry after the palette has closed: an open one would take back the focus that a command moves. */
  const handleClosed = (event: Event) => {
    if (toRun.current === null) return giveBack(event);
    event.preventDefault();
    toRun.current.run();
  };
  const handleKey = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      const next = (index + step + entries.length) % Math.max(1, entries.length);
      setChosen(next);
      document.getElementById(`${list}-${next}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(entries[index]);
    }
  };
  return (
    <Primitive.Root open onOpenChange={(open) => !open && closeOverlay()}>
      <Primitive.Portal>
        <Primitive.Overlay className="scrim-full" />
        <Primitive.Content
          className="pal"
          aria-describedby={undefined}
          onOpenAutoFocus={remember}
          onCloseAutoFocus={handleClosed}
        >
          <Primitive.Title className="sr">Search or run a command</Primitive.Title>
          <div className="pin">
            <Icon name="search" />
            <input
              role="combobox"
              aria-label="Search or run a command"
              aria-expanded="true"
              aria-controls={list}
              aria-activedescendant={entries[index] && `${list}-${index}`}
              placeholder="Job, view or command"
              value={text}
              onChange={(event) => {
                setText(event.target.value);
                setChosen(0);
              }}
              onKeyDown={handleKey}
            />
          </div>
          <ul id={list} role="listbox" aria-label="Results">
            {entries.map((entry, position) => (
              <PaletteOption
                key={entry.id}
                id={`${list}-${position}`}
                entry={entry}
                heading={entry.group !== entries[position - 1]?.group}
                selected={position === index}
                onChoose={() => run(entry)}
                onHover={() => setChosen(position)}
              />
            ))}
          </ul>
          {entries.length === 0 && <p className="pal-none t3">Nothing matches “{text}”.</p>}
        </Primitive.Content>
      </Primitive.Portal>
    </Primitive.Root>
  );
}

interface PaletteOptionProps {
  id: string;
  entry: Entry;
  heading: boolean;
  selected: boolean;
  onChoose: () => void;
  onHover: () => void;
}

function PaletteOption({ id, entry, heading, selected, onChoose, onHover }: PaletteOptionProps) {
  return (
    <>
      {heading && (
        <li className="pg" role="presentation">
          {entry.group}
        </li>
      )}
      {/* The field keeps the focus and handles the keys, as the combobox pattern requires. */}
      {/* eslint-disable-next-line jsx-a11y/click-events-have-key-events */}
      <li id={id} role="option" aria-selected={selected} onClick={onChoose} onMouseMove={onHover}>
        <Icon name={entry.icon} />
        <span className="cut">{entry.label}</span>
        <span className="ps">{entry.detail}</span>
        <span className="pk" aria-hidden="true">
          {entry.keys?.split(" ").map((key) => (
            <kbd key={key}>{key}</kbd>
          ))}
        </span>
      </li>
    </>
  );
}

function useEntries(text: string): Entry[] {
  const commands = useCommands().filter((each) => hasWords(each, text));
  const jobs = useJobEntries(text.trim());
  return [...jobs, ...commands];
}

function hasWords(entry: Entry, text: string): boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return words.every((word) => entry.label.toLowerCase().includes(word));
}

function useCommands(): Entry[] {
  const navigate = useNavigate();
  const { can } = useSession();
  const views: Entry[] = NAVIGATION.map((each) => ({
    id: each.to,
    group: "Go to",
    label: each.label,
    keys: `g ${each.key}`,
    icon: each.icon,
    run: () => void navigate({ to: each.to }),
  }));
  const actions: Entry[] = activeShortcuts()
    .filter((each) => !each.keys.startsWith("g ") && each.keys !== PALETTE_KEYS && each.keys !== "n")
    .map((each) => ({
      id: `${each.group}/${each.label}`,
      group: each.group,
      label: each.label,
      keys: each.keys,
      icon: "play",
      run: each.run,
    }));
  const create: Entry[] = can("write")
    ? [
        {
          id: "new",
          group: "Go to",
          label: "New job",
          keys: "n",
          icon: "plus",
          run: () => void navigate({ to: "/new" }),
        },
      ]
    : [];
  return [...create, ...views, ...actions];
}

function useJobEntries(text: string): Entry[] {
  const navigate = useNavigate();
  const words = useDeferredValue(text);
  const query = useQuery({
    queryKey: ["palette", words],
    queryFn: () => unwrap(api.GET("/api/v1/training", { params: { query: { q: words, limit: MAX_JOBS } } })),
    enabled: words.length > 0,
    placeholderData: (previous) => previous,
  });
  if (words.length === 0) return [];
  const found = (query.data?.jobs ?? []).map((job) => ({
    id: job.id,
    group: "Jobs",
    label: job.name || shortId(job.id),
    detail: `${job.status}, ${shortId(job.id)}`,
    icon: "jobs" as const,
    run: () => void navigate({ to: "/jobs/$ref", params: { ref: job.id } }),
  }));
  // Until the server has answered for this text, the answer for an earlier one is shown.
  const isCurrent = words === text && !query.isPlaceholderData;
  return isCurrent ? found : found.filter((each) => hasWords(each, text));
}
