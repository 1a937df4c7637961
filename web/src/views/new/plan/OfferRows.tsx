/** An offer as a row, and below it the reasons for and against it. */

import type { CSSProperties, ReactNode } from "react";
import { formatDuration, formatInterval, formatMoney, formatNodesPrice } from "@/lib/format";
import { roundedAge } from "@/lib/time";
import { Button } from "@/ui/Button";
import { Icon } from "@/ui/Icon";
import { isPaid, isUsable, machineTitle, offerTitle, type Offer } from "@/views/new/offers";

interface OfferRowsProps {
  offer: Offer;
  end: number;
  isChosen: boolean;
  isPinned: boolean;
  isOpen: boolean;
  onOpen: () => void;
  onChoose: () => void;
  onUnpin: () => void;
  /** Shown below the reasons. */
  more?: ReactNode;
}

export function OfferRows({
  offer,
  end,
  isChosen,
  isPinned,
  isOpen,
  onOpen,
  onChoose,
  onUnpin,
  more,
}: OfferRowsProps) {
  const usable = isUsable(offer);
  const reason =
    offer.has_backend === false ? "anygpu cannot rent machines there" : "there is no account for this cloud";
  return (
    <>
      <tr className={["off", isChosen ? "sel" : "", usable ? "" : "no"].filter(Boolean).join(" ")}>
        <td className="rk">
          <input
            type="radio"
            name="offer"
            className="radio"
            aria-label={`${offerTitle(offer)} ${offer.region}`}
            checked={isChosen}
            disabled={!usable}
            title={usable ? undefined : `Cannot be chosen: ${reason}`}
            onChange={onChoose}
          />
        </td>
        <td className="of">
          <button type="button" className="of-name" aria-expanded={isOpen} onClick={onOpen}>
            <b>{offer.backend}</b> <span>{machineTitle(offer)}</span>
            {offer.interruptible && <span className="tag">spot</span>}
            {!usable && <span className="tag cat">catalog</span>}
            {isPinned && <span className="tag">chosen</span>}
          </button>
          <small title={placeText(offer)}>{placeText(offer)}</small>
        </td>
        <td className="cb">{isPaid(offer) && <CostBar offer={offer} end={end} isChosen={isChosen} />}</td>
        <td className="num co">
          {isPaid(offer) ? (
            <>
              <b>{formatMoney(offer.cost_microusd.expected)}</b>
              <small>{costRange(offer)}</small>
            </>
          ) : (
            <b>own</b>
          )}
        </td>
        <td className="num ti">
          {formatDuration(offer.seconds.expected)}
          <small>{timeRange(offer)}</small>
        </td>
        <td className="su">
          <Sure level={offer.confidence} />
          <small className="cut">{availability(offer)}</small>
        </td>
      </tr>
      {isOpen && (
        <Reasons offer={offer} isPinned={isPinned} onUnpin={onUnpin}>
          {more}
        </Reasons>
      )}
    </>
  );
}

function placeText(offer: Offer): string {
  const place = [offer.name, offer.zone || offer.region].filter(Boolean).join(", ");
  return isPaid(offer) ? [formatNodesPrice(offer), place].filter(Boolean).join(", ") : place;
}

function CostBar({ offer, end, isChosen }: { offer: Offer; end: number; isChosen: boolean }) {
  const part = (value: number) => `${Math.min(100, (value / end) * 100).toFixed(1)}%`;
  const { expected, low, high } = offer.cost_microusd;
  const style = {
    "--v": part(expected),
    "--a": part(low),
    "--b": part(high),
    "--c": isChosen ? "var(--c1)" : "var(--c-rest)",
  } as CSSProperties;
  return (
    <span className="cbar" style={style}>
      <i className="fill" />
      <i className="wh" />
    </span>
  );
}

function costRange({ cost_microusd: { low, high } }: Offer): string {
  return formatInterval(formatMoney(low), formatMoney(high));
}

/** Times that differ by more than this factor have a unit each: in hours, "1 m" would be "0.0". */
const SHARED_UNIT_RATIO = 15;

function timeRange({ seconds: { low, high } }: Offer): string {
  if (low < high / SHARED_UNIT_RATIO) return formatInterval(roundedAge(low), roundedAge(high));
  if (high < 120) return formatInterval(formatDuration(low), formatDuration(high));
  const [divisor, unit] = high >= 2 * 86_400 ? [86_400, "d"] : high >= 3600 ? [3600, "h"] : [60, "m"];
  const text = (seconds: number) => {
    const value = seconds / divisor;
    return value >= 10 ? value.toFixed(0) : value.toFixed(1);
  };
  return `${formatInterval(text(low), text(high))}\u00a0${unit}`;
}

const LEVELS = ["low", "medium", "high"];

function Sure({ level }: { level: string }) {
  return (
    <span
      className={`sure s${Math.max(0, LEVELS.indexOf(level))}`}
      title={`Confidence of the prediction: ${level}`}
    >
      <i />
      <i />
      <i />
      <span>{level}</span>
    </span>
  );
}

function availability(offer: Offer): string {
  if (!isUsable(offer)) return offer.has_backend === false ? "not supported" : "no account";
  if (offer.wait !== "") return offer.wait;
  return offer.free === null ? "as usual" : `${offer.free} free`;
}

interface ReasonsProps {
  offer: Offer;
  isPinned: boolean;
  onUnpin: () => void;
  children: ReactNode;
}

function Reasons({ offer, isPinned, onUnpin, children }: ReasonsProps) {
  return (
    <tr className={isPinned ? "why pinned" : "why"}>
      <td />
      <td colSpan={5}>
        <ul className="pc">
          {offer.pros.map((text) => (
            <li key={text} className="pro">
              <Icon name="check" size={12} />
              {text}
            </li>
          ))}
          {offer.cons.map((text) => (
            <li key={text} className="con">
              <Icon name="warning" size={12} />
              {text}
            </li>
          ))}
        </ul>
        {isPinned && (
          <p className="pin-note">
            The job runs only here, at {formatNodesPrice(offer)}.{" "}
            <Button look="quiet" onClick={onUnpin}>
              Let the plan choose
            </Button>
          </p>
        )}
        {children}
      </td>
    </tr>
  );
}
