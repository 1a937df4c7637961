/** Who uses the page and what they may do. */

import { useQuery } from "@tanstack/react-query";
import { createContext, useContext, type ReactNode } from "react";
import { api, asProblem, unwrap, type Schemas } from "@/api/client";
import { SignInPage } from "@/app/SignInPage";
import { ErrorState, Skeleton } from "@/ui/states";

/** write: submit and cancel. admin: tokens and backends. operate: the server itself. */
export type Ability = "write" | "admin" | "operate";

const ROLES = ["viewer", "member", "admin", "operator"];
const NEEDED: Record<Ability, number> = { write: 1, admin: 2, operate: 3 };

export interface Session {
  identity: Schemas["CallerIdentity"];
  can: (ability: Ability) => boolean;
}

export function createSession(identity: Schemas["CallerIdentity"]): Session {
  const rank = ROLES.indexOf(identity.role);
  return { identity, can: (ability) => rank >= NEEDED[ability] };
}

const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("useSession is used outside of SessionProvider");
  return session;
}

/** Shows the app to a signed-in browser, and the sign-in page to others. */
export function SessionProvider({ children }: { children: ReactNode }) {
  const query = useQuery({
    queryKey: ["whoami"],
    queryFn: () => unwrap(api.GET("/api/v1/whoami")),
    staleTime: Infinity,
    retry: (_count, error) => asProblem(error).status === 0,
  });
  if (query.data !== undefined) {
    return <SessionContext value={createSession(query.data)}>{children}</SessionContext>;
  }
  if (query.error === null) return <Skeleton label="Loading" rows={0} />;
  if (asProblem(query.error).status === 401) return <SignInPage />;
  return (
    <ErrorState
      title="The app could not be loaded"
      error={query.error}
      onRetry={() => void query.refetch()}
    />
  );
}
