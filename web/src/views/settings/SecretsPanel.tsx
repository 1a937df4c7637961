import { useState, type FormEvent } from "react";
import { useSession } from "@/app/session";
import { Button } from "@/ui/Button";
import { TextField } from "@/ui/controls";
import { ConfirmDialog, Dialog } from "@/ui/Dialog";
import { Callout, EmptyState, LoadState } from "@/ui/states";
import { RelativeTime } from "@/ui/Time";
import { secretNameProblem, useDeleteSecret, useSecrets, useSetSecret } from "@/views/settings/data";
import { problemText } from "@/views/settings/problem";

/** Secrets of the project. Their values cannot be read, only replaced. */
export function SecretsPanel() {
  const { can } = useSession();
  const query = useSecrets();
  const remove = useDeleteSecret();
  const [setting, setSetting] = useState<string | null>(null);
  const [removing, setRemoving] = useState<string | null>(null);
  const secrets = query.data?.secrets ?? [];
  return (
    <section className="panel" aria-labelledby="secrets">
      <header>
        <h2 id="secrets">Secrets</h2>
        <span className="sub">given to jobs that name them; values are never shown</span>
        {can("write") && (
          <Button icon="plus" onClick={() => setSetting("")}>
            Add a secret
          </Button>
        )}
      </header>
      <LoadState query={query} label="Loading secrets" rows={2} failure="The secrets could not be listed" />
      {query.data && secrets.length === 0 && (
        <EmptyState small title="No secrets in this project" command="anygpu secret set HF_TOKEN" />
      )}
      {secrets.length > 0 && (
        <div className="scroll-x" tabIndex={0} role="region" aria-label="Table of secrets">
          <table className="tbl">
            <thead>
              <tr>
                <th>Name</th>
                <th>Stored by</th>
                <th className="num">Changed</th>
                <th>
                  <span className="sr">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {secrets.map(({ name, person, updated_at }) => (
                <tr key={name}>
                  <td className="mono med">{name}</td>
                  <td>{person}</td>
                  <td className="num">
                    <RelativeTime at={updated_at} />
                  </td>
                  <td className="num">
                    {can("write") && (
                      <span className="row secret-actions">
                        <Button aria-label={`Replace ${name}`} onClick={() => setSetting(name)}>
                          Replace
                        </Button>
                        <Button look="danger" aria-label={`Delete ${name}`} onClick={() => setRemoving(name)}>
                          Delete
                        </Button>
                      </span>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {setting !== null && <SecretDialog name={setting} onClose={() => setSetting(null)} />}
      <ConfirmDialog
        open={removing !== null}
        title={`Delete the secret ${removing ?? ""}?`}
        keep="Keep it"
        act="Delete the secret"
        onKeep={() => setRemoving(null)}
        onAct={() => {
          if (removing !== null) remove.mutate(removing);
          setRemoving(null);
        }}
      >
        A job that names it fails when it starts. Running jobs keep the value that they have.
      </ConfirmDialog>
    </section>
  );
}

/** @param name the secret to replace, or "" for a new one */
function SecretDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const save = useSetSecret();
  const [typed, setTyped] = useState(name);
  const [value, setValue] = useState("");
  const problem = secretNameProblem(typed);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate({ name: typed, value }, { onSuccess: onClose });
  };
  return (
    <Dialog open title={name === "" ? "Add a secret" : `Replace ${name}`} onClose={onClose}>
      <form className="settings-form" onSubmit={submit}>
        {name === "" && (
          <TextField
            label="Name"
            showLabel
            value={typed}
            placeholder="HF_TOKEN"
            error={problem}
            autoComplete="off"
            onChange={setTyped}
          />
        )}
        <TextField
          label="Value"
          showLabel
          type="password"
          autoComplete="off"
          value={value}
          onChange={setValue}
        />
        {save.error !== null && <Callout tone="bad">{problemText(save.error)}</Callout>}
        <div className="row dialog-actions">
          <Button onClick={onClose}>Close</Button>
          <Button
            look="primary"
            type="submit"
            disabled={typed === "" || value === "" || problem !== undefined || save.isPending}
            title={typed === "" || value === "" ? "Enter a name and a value" : undefined}
          >
            Store the secret
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
