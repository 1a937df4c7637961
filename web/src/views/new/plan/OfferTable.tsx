/** The ranked offers: cost bars with their intervals on one axis, time, confidence and availability. */

import { useState } from "react";
import { Button } from "@/ui/Button";
import type { Draft } from "@/views/new/draft";
import { isPaid, isUsable, niceCeil, offerKey, offerTitle, type Offer, type Plan } from "@/views/new/offers";
import { NativeRequest } from "@/views/new/plan/NativeRequest";
import { OfferRows } from "@/views/new/plan/OfferRows";

const MICRO = 1_000_000;
const SHOWN = 10;

interface OfferTableProps {
  plan: Plan;
  draft: Draft;
  chosen: Offer | null;
  onChoose: (offer: Offer) => void;
  onUnpin: () => void;
}

export function OfferTable({ plan, draft, chosen, onChoose, onUnpin }: OfferTableProps) {
  const [all, setAll] = useState(false);
  const [opened, setOpened] = useState("");
  const offers = all ? plan.short : plan.short.slice(0, SHOWN);
  const end = niceCeil(Math.max(...offers.map((offer) => offer.cost_microusd.high / MICRO), 0.01));
  const isLost = draft.pin !== null && chosen === null;
  if (plan.short.length === 0) return <p className="t2">No offer fits this job. The reasons are below.</p>;
  return (
    <>
      {isLost && draft.pin !== null && (
        <p className="t2 lost-pin">
          The chosen offer, {offerTitle(draft.pin)}, is not in this plan.{" "}
          <Button onClick={onUnpin}>Let the plan choose</Button>
        </p>
      )}
      <table className="offers">
        <thead>
          <tr>
            <th>
              <span className="sr">Choice</span>
            </th>
            <th>Offer</th>
            <th className="cb">
              <span className="sr">Cost</span>
              {offers.some(isPaid) && (
                <span className="ax" aria-hidden="true">
                  <i>$0</i>
                  <i>{axisText(end / 2)}</i>
                  <i>{axisText(end)}</i>
                </span>
              )}
            </th>
            <th className="num">Whole job</th>
            <th className="num">Time</th>
            <th>Sure</th>
          </tr>
        </thead>
        <tbody>
          {offers.map((offer) => {
            const key = offerKey(offer);
            const isChosen = chosen !== null && key === offerKey(chosen);
            return (
              <OfferRows
                key={key}
                offer={offer}
                end={end * MICRO}
                isChosen={isChosen}
                isPinned={isChosen && draft.pin !== null}
                isOpen={isChosen || opened === key}
                onOpen={() => setOpened(opened === key ? "" : key)}
                onChoose={() => onChoose(offer)}
                onUnpin={onUnpin}
                more={isChosen && isUsable(offer) && <NativeRequest draft={draft} offer={offer} />}
              />
            );
          })}
        </tbody>
      </table>
      {plan.short.length > SHOWN && (
        <Button look="quiet" className="more-offers" onClick={() => setAll(!all)}>
          {all ? "Show fewer" : `Show ${plan.short.length - SHOWN} more kinds of machines`}
        </Button>
      )}
    </>
  );
}

function axisText(dollars: number): string {
  return String(Math.round(dollars * 100) / 100);
}
