/** The requests that would start the job on an offer, as its backend sends them. Asked for when it is opened. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, asProblem, unwrap } from "@/api/client";
import { useSession } from "@/app/session";
import type { Draft } from "@/views/new/draft";
import type { Offer } from "@/views/new/offers";
import { planSpec } from "@/views/new/spec";
import { codeFiles } from "@/views/new/usePlan";

interface NativeRequestProps {
  draft: Draft;
  offer: Offer;
}

export function NativeRequest({ draft, offer }: NativeRequestProps) {
  const { can } = useSession();
  const [open, setOpen] = useState(false);
  if (!can("write")) return null;
  return (
    <details className="native" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Native request</summary>
      {open && <Requests draft={draft} offer={offer} />}
    </details>
  );
}

function Requests({ draft, offer }: NativeRequestProps) {
  const body = {
    spec: planSpec(draft),
    files: codeFiles(draft),
    backend: offer.backend,
    offer: offer.name,
    region: offer.region,
  };
  const query = useQuery({
    queryKey: ["native request", body],
    gcTime: 2_000,
    staleTime: 30_000,
    retry: false,
    refetchOnWindowFocus: false,
    queryFn: ({ signal }) => unwrap(api.POST("/api/v1/plan/native", { body, signal })),
  });
  if (query.error !== null) return <p className="bad">{asProblem(query.error).message}</p>;
  if (query.data === undefined) return <p className="t3">Asking the backend</p>;
  return query.data.requests.map((request) => (
    <div key={request.title}>
      <h4>{request.title}</h4>
      <pre tabIndex={0} aria-label={request.title}>
        {request.text}
      </pre>
    </div>
  ));
}
