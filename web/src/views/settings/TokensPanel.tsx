import { useState } from "react";
import { useSession } from "@/app/session";
import { plural } from "@/lib/format";
import { Button } from "@/ui/Button";
import { ConfirmDialog } from "@/ui/Dialog";
import { EmptyState, LoadState } from "@/ui/states";
import { RelativeTime } from "@/ui/Time";
import { CreateTokenDialog } from "@/views/settings/CreateTokenDialog";
import { grantableRoles, useRevokeToken, useTokens, type Token } from "@/views/settings/data";

/** Tokens for programs, and browsers that are signed in. */
export function TokensPanel() {
  const query = useTokens();
  const [creating, setCreating] = useState(false);
  const tokens = query.data?.tokens ?? [];
  const sessions = tokens.filter((token) => token.purpose === "session");
  const keys = tokens.filter((token) => token.purpose !== "session");
  return (
    <>
      <section className="panel" aria-labelledby="tokens">
        <header>
          <h2 id="tokens">Tokens</h2>
          <span className="sub">for the command, the SDK and other programs</span>
          <Button icon="plus" onClick={() => setCreating(true)}>
            Create a token
          </Button>
        </header>
        <LoadState query={query} label="Loading tokens" rows={2} failure="The tokens could not be listed" />
        {query.data && keys.length === 0 && <EmptyState small title="No tokens" />}
        {keys.length > 0 && <TokenTable tokens={keys} label="Table of tokens" />}
      </section>
      {query.data && (
        <section className="panel" aria-labelledby="sessions">
          <header>
            <h2 id="sessions">Browser sessions</h2>
            <span className="sub">{plural(sessions.length, "signed-in browser")}</span>
          </header>
          {sessions.length === 0 ? (
            <EmptyState small title="No browser is signed in" command="anygpu open" />
          ) : (
            <TokenTable tokens={sessions} label="Table of browser sessions" />
          )}
        </section>
      )}
      {creating && <CreateTokenDialog onClose={() => setCreating(false)} />}
    </>
  );
}

function TokenTable({ tokens, label }: { tokens: readonly Token[]; label: string }) {
  const revoke = useRevokeToken();
  const { identity } = useSession();
  const revocable: readonly string[] = grantableRoles(identity.role);
  const [asking, setAsking] = useState<Token | null>(null);
  const isSession = asking?.purpose === "session";
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label={label}>
      <table className="tbl tokens">
        <thead>
          <tr>
            <th>Name</th>
            <th>Role</th>
            <th>Person</th>
            <th className="num">Created</th>
            <th className="num">Used</th>
            <th className="num">Expires</th>
            <th>
              <span className="sr">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {tokens.map((token) => (
            <TokenRow
              key={token.id}
              token={token}
              onRevoke={revocable.includes(token.role) ? () => setAsking(token) : null}
            />
          ))}
        </tbody>
      </table>
      <ConfirmDialog
        open={asking !== null}
        title={isSession ? "End this session?" : `Revoke ${asking?.name || "this token"}?`}
        keep="Keep it"
        act={isSession ? "End the session" : "Revoke the token"}
        onKeep={() => setAsking(null)}
        onAct={() => {
          if (asking !== null) revoke.mutate(asking.id);
          setAsking(null);
        }}
      >
        {isSession
          ? "The browser must sign in again. If it is this browser, you are signed out."
          : "Programs that use it are refused at once. Jobs that they submitted keep running."}
      </ConfirmDialog>
    </div>
  );
}

/** `onRevoke` is null if the own role may not revoke the token. */
function TokenRow({ token, onRevoke }: { token: Token; onRevoke: (() => void) | null }) {
  const act = token.purpose === "session" ? "End" : "Revoke";
  return (
    <tr>
      <td className="two">
        <span className="med cut">{token.name || "unnamed"}</span>
        <small className="mono">{token.id.slice(0, 8)}</small>
      </td>
      <td>{token.role}</td>
      <td>{token.person}</td>
      <td className="num">
        <RelativeTime at={token.created_at} />
      </td>
      <td className="num">{token.used_at === null ? "never" : <RelativeTime at={token.used_at} />}</td>
      <td className="num">{token.expires_at === null ? "never" : <RelativeTime at={token.expires_at} />}</td>
      <td className="num">
        {onRevoke !== null && (
          <Button
            look="danger"
            aria-label={`${act} ${token.name || token.id.slice(0, 8)}`}
            onClick={onRevoke}
          >
            {act}
          </Button>
        )}
      </td>
    </tr>
  );
}
