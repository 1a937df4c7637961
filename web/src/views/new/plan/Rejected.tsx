import { formatCount } from "@/lib/format";
import { Icon } from "@/ui/Icon";
import { groupRejections, offerTitle, type Plan } from "@/views/new/offers";

/** Why the other offers do not fit, most frequent reason first. */
export function Rejected({ plan }: { plan: Plan }) {
  const groups = groupRejections(plan.rejected);
  const total = groups.reduce((sum, each) => sum + each.offers, 0);
  if (total === 0) return null;
  return (
    <details className="rej">
      <summary>
        <Icon name="chevronRight" size={12} />
        {formatCount(total)} rejected {total === 1 ? "offer" : "offers"}
      </summary>
      <ul>
        {groups.map((each) => {
          const [example] = each.examples;
          return (
            <li key={each.reason}>
              <span className="num">{formatCount(each.offers)}</span>
              <span>
                {each.reason}
                <small>
                  {example !== undefined && `${offerTitle(example)} ${example.name}`}
                  {each.offers > 1 ? " and others" : ""}
                </small>
              </span>
            </li>
          );
        })}
      </ul>
    </details>
  );
}
