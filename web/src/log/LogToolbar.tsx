import type { KeyboardEvent, ReactNode } from "react";
import { formatCount } from "@/lib/format";
import { useDelayedWrite } from "@/lib/useDelayedWrite";
import { hitText } from "@/log/hits";
import type { LogQuery, LogSearch } from "@/log/useSearch";
import { Button, IconButton } from "@/ui/Button";
import { Switch } from "@/ui/controls";
import { Icon } from "@/ui/Icon";
import { Menu } from "@/ui/Menu";

interface LogToolbarProps {
  attempts: readonly { number: number; place: string }[];
  shownAttempt: number;
  onAttempt: (attempt: number | null) => void;
  /** The machines of the shown attempt; empty if it has only one. */
  nodes: readonly LogNode[];
  shownNode: number;
  onNode: (node: number) => void;
  search: ReactNode;
  following: boolean;
  onFollow: (following: boolean) => void;
  downloadHref: string;
}

/** A machine of an attempt on several machines. */
export interface LogNode {
  node: number;
  /** Its ranks and its host. */
  detail: string;
}

/** Attempt, machine, search, follow and download. */
export function LogToolbar(props: LogToolbarProps) {
  const { attempts, shownAttempt, onAttempt } = props;
  const newest = attempts.at(-1)?.number ?? 0;
  return (
    <>
      {attempts.length > 1 ? (
        <Menu
          align="start"
          trigger={
            <Button look="quiet" className="small">
              Attempt {shownAttempt || newest}
              <Icon name="chevronDown" size={12} />
            </Button>
          }
          items={attempts.toReversed().map(({ number, place }) => ({
            label: `Attempt ${number}`,
            detail: number === newest ? `${place}, newest` : place,
            onSelect: () => onAttempt(number === newest ? null : number),
          }))}
        />
      ) : (
        <span className="sub">{newest > 0 ? `Attempt ${newest}` : ""}</span>
      )}
      {props.nodes.length > 1 && (
        <NodeMenu nodes={props.nodes} shown={props.shownNode} onChoose={props.onNode} />
      )}
      {props.search}
      <Switch label="Follow" checked={props.following} onChange={props.onFollow} />
      <a
        className="btn quiet icon"
        href={props.downloadHref}
        download
        aria-label="Download the log"
        title="Download the log"
      >
        <Icon name="download" size={14} />
      </a>
    </>
  );
}

interface NodeMenuProps {
  nodes: readonly LogNode[];
  shown: number;
  onChoose: (node: number) => void;
}

/** Chooses the machine whose output is shown; node 0, which has rank 0, is first. */
function NodeMenu({ nodes, shown, onChoose }: NodeMenuProps) {
  return (
    <Menu
      align="start"
      trigger={
        <Button look="quiet" className="small" title="Machine whose output is shown">
          Node {shown}
          <Icon name="chevronDown" size={12} />
        </Button>
      }
      items={nodes.map(({ node, detail }) => ({
        label: `Node ${node}`,
        detail,
        onSelect: () => onChoose(node),
      }))}
    />
  );
}

interface LogSearchFieldProps {
  query: LogQuery;
  search: LogSearch;
  onQuery: (query: LogQuery) => void;
  onMove: (direction: 1 | -1) => void;
}

/** The search field with the number of hits, and buttons for the previous and next hit. */
export function LogSearchField({ query, search, onQuery, onMove }: LogSearchFieldProps) {
  const [text, setText] = useDelayedWrite(query.text, (typed) => onQuery({ ...query, text: typed }));
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter") onMove(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape" && text !== "") {
      event.stopPropagation();
      setText("");
    }
  };
  const { hits, current, error } = search;
  const isInvalid = error?.isInvalid === true;
  const isFirst = hits !== null && current === 0 && hits.older === null;
  const isLast = hits !== null && current !== null && current === hits.numbers.length - 1;
  const none = hits === null || hits.numbers.length === 0;
  return (
    <>
      <label className={isInvalid ? "field lsearch invalid" : "field lsearch"}>
        <span className="sr">Search the log</span>
        <Icon name="search" size={14} />
        <input
          type="search"
          value={text}
          placeholder="Search"
          aria-invalid={isInvalid}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={onKeyDown}
        />
        <span className="tiny nowrap" role="status" title={error?.text}>
          {error !== null
            ? isInvalid
              ? "not valid"
              : "search failed"
            : hits === null
              ? ""
              : hitText(hits, current, formatCount)}
        </span>
        <Toggle
          label="Match case"
          text="Aa"
          on={query.matchCase}
          onChange={(matchCase) => onQuery({ ...query, matchCase })}
        />
        <Toggle
          label="Regular expression"
          text=".*"
          on={query.regex}
          onChange={(regex) => onQuery({ ...query, regex })}
        />
      </label>
      <span className="row hit-moves">
        <IconButton
          icon="up"
          label="Previous hit"
          title={isFirst ? "This is the first hit" : "Previous hit (Shift Enter)"}
          disabled={none || isFirst}
          onClick={() => onMove(-1)}
        />
        <IconButton
          icon="down"
          label="Next hit"
          title={isLast ? "This is the last hit" : "Next hit (Enter)"}
          disabled={none || isLast}
          onClick={() => onMove(1)}
        />
      </span>
    </>
  );
}

interface ToggleProps {
  label: string;
  text: string;
  on: boolean;
  onChange: (on: boolean) => void;
}

function Toggle({ label, text, on, onChange }: ToggleProps) {
  return (
    <button
      type="button"
      className="find-option mono"
      aria-label={label}
      aria-pressed={on}
      title={label}
      onClick={() => onChange(!on)}
    >
      {text}
    </button>
  );
}
