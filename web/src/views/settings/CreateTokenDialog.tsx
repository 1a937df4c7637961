import { useState, type FormEvent } from "react";
import { useSession } from "@/app/session";
import { Button, IconButton } from "@/ui/Button";
import { Segmented, TextField } from "@/ui/controls";
import { Dialog } from "@/ui/Dialog";
import { Callout } from "@/ui/states";
import { grantableRoles, useCreateToken, type Role } from "@/views/settings/data";
import { problemText } from "@/views/settings/problem";

const DAY_S = 86_400;
const EXPIRIES = [
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "1 year" },
  { value: "", label: "Never" },
] as const;
type Expiry = (typeof EXPIRIES)[number]["value"];

/** Creates a token and shows it once. */
export function CreateTokenDialog({ onClose }: { onClose: () => void }) {
  const create = useCreateToken();
  if (create.data !== undefined) {
    return (
      <Dialog open title="Copy the token now" onClose={onClose}>
        <p className="t2">It is shown only this once: the server keeps only its hash.</p>
        <CopyField value={create.data.token} />
        <div className="row dialog-actions">
          <Button look="primary" onClick={onClose}>
            Done
          </Button>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog open title="Create a token" onClose={onClose}>
      <TokenForm create={create} onClose={onClose} />
    </Dialog>
  );
}

interface TokenFormProps {
  create: ReturnType<typeof useCreateToken>;
  onClose: () => void;
}

function TokenForm({ create, onClose }: TokenFormProps) {
  const { identity } = useSession();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("member");
  const [expiry, setExpiry] = useState<Expiry>("90");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate({ name: name.trim(), role, expires_s: expiry === "" ? null : Number(expiry) * DAY_S });
  };
  return (
    <form className="settings-form" onSubmit={submit}>
      <TextField
        label="Name"
        showLabel
        value={name}
        placeholder="laptop"
        maxLength={200}
        onChange={setName}
      />
      <div className="text-field">
        <span className="field-label">Role</span>
        <Segmented
          label="Role"
          value={role}
          choices={grantableRoles(identity.role).map((each) => ({ value: each, label: each }))}
          onChange={setRole}
        />
        <small className="t3">{MEANINGS[role]}</small>
      </div>
      <div className="text-field">
        <span className="field-label">Expires</span>
        <Segmented label="Expires" value={expiry} choices={EXPIRIES} onChange={setExpiry} />
      </div>
      {create.error !== null && <Callout tone="bad">{problemText(create.error)}</Callout>}
      <div className="row dialog-actions">
        <Button onClick={onClose}>Close</Button>
        <Button look="primary" type="submit" disabled={create.isPending}>
          Create the token
        </Button>
      </div>
    </form>
  );
}

const MEANINGS: Record<Role, string> = {
  viewer: "Reads everything of the project and changes nothing.",
  member: "Submits, cancels and edits jobs, and stores secrets.",
  admin: "Also manages tokens and backends of the organisation.",
  operator: "Also manages the server and all organisations.",
};

function CopyField({ value }: { value: string }) {
  return (
    <div className="cmd">
      <code className="token-text" data-testid="new-token">
        {value}
      </code>
      <IconButton
        icon="copy"
        label="Copy the token"
        onClick={() => void navigator.clipboard?.writeText(value)}
      />
    </div>
  );
}
