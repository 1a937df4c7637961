/** The job as a command, a YAML file or Python code that submits exactly the same. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "@/api/client";
import { useSession } from "@/app/session";
import { copyText } from "@/lib/clipboard";
import { Button } from "@/ui/Button";
import { Segmented, Switch } from "@/ui/controls";
import { Dialog } from "@/ui/Dialog";
import { ErrorState, Skeleton } from "@/ui/states";
import type { Draft } from "@/views/new/draft";
import { uploadSnapshot } from "@/views/new/files/upload";
import { isPaid } from "@/views/new/offers";
import { sendsFiles, submitSpec } from "@/views/new/spec";

export type TextKind = "cli" | "yaml" | "python";

const CHOICES = [
  { value: "cli", label: "CLI" },
  { value: "yaml", label: "YAML" },
  { value: "python", label: "Python" },
] as const;
const NOTES: Record<TextKind, string> = {
  cli: "Paste it into a terminal.",
  yaml: "Save it as job.yaml, then: anygpu run job.yaml",
  python: "Run it where the anygpu package is installed.",
};

interface CopyDialogProps {
  draft: Draft;
  first: TextKind;
  onClose: () => void;
}

export function CopyDialog({ draft, first, onClose }: CopyDialogProps) {
  const { can } = useSession();
  const mayStore = can("write") && sendsFiles(draft);
  const [kind, setKind] = useState(first);
  const [stored, setStored] = useState(mayStore);
  const [copied, setCopied] = useState("");
  const query = useQuery({
    queryKey: ["spec-texts", draft, stored],
    gcTime: 0,
    queryFn: () => renderTexts(draft, stored),
  });
  const text = query.data?.[kind] ?? "";
  return (
    <Dialog open wide title="Copy the job" onClose={onClose}>
      <div className="row copy-bar">
        <Segmented label="Format" value={kind} choices={CHOICES} onChange={setKind} />
        {mayStore && <Switch label="With the code as it is now" checked={stored} onChange={setStored} />}
      </div>
      {query.isError && <ErrorState title="The text could not be made" error={query.error} />}
      {query.isPending && <Skeleton label="Making the text" rows={2} />}
      {query.data !== undefined && (
        // The region scrolls, so that the keyboard must reach it.
        <pre className="code copy-text" tabIndex={0} aria-label={`The job as ${kind}`}>
          {text}
        </pre>
      )}
      <p className="t3 small">
        {NOTES[kind]} {stored ? "The code is stored on the server." : filesNote(draft)}
      </p>
      <div className="row dialog-actions">
        <Button
          look="primary"
          icon="copy"
          disabled={text === ""}
          onClick={() => void copyText(text).then((done) => setCopied(done ? text : ""))}
        >
          {copied === text && text !== "" ? "Copied" : "Copy"}
        </Button>
      </div>
    </Dialog>
  );
}

function filesNote(draft: Draft): string {
  return sendsFiles(draft) ? "The files of the current directory are used." : "";
}

async function renderTexts(draft: Draft, stored: boolean) {
  let manifest: string | null = null;
  if (stored) {
    const limits = await unwrap(api.GET("/api/v1/snapshots/limits"));
    manifest = await uploadSnapshot(draft.files, limits, () => undefined);
  }
  const spec = submitSpec(draft, manifest, draft.pin !== null && isPaid(draft.pin));
  return await unwrap(api.POST("/api/v1/spec/render", { body: { spec } }));
}
