import { formatCount } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Checkbox } from "@/ui/controls";
import { Popover } from "@/ui/Menu";
import type { Plan } from "@/views/new/offers";

interface ProviderFilterProps {
  plan: Plan;
  chosen: readonly string[];
  onChange: (providers: readonly string[]) => void;
}

/** Show only offers of some backends and clouds. The job itself is not changed. */
export function ProviderFilter({ plan, chosen, onChange }: ProviderFilterProps) {
  const compared = [...(plan.compared ?? [])].sort(
    (one, other) => Number(other.configured) - Number(one.configured),
  );
  const toggle = (name: string, isOn: boolean) =>
    onChange(isOn ? [...chosen, name] : chosen.filter((each) => each !== name));
  return (
    <span className="row">
      <Popover
        label="Providers"
        trigger={<Button>{chosen.length === 0 ? "All providers" : `Only ${chosen.join(", ")}`}</Button>}
      >
        <div className="providers">
          {compared.map(({ backend, offers, configured }) => (
            <div key={backend} className="row">
              <Checkbox
                label={backend}
                showLabel
                checked={chosen.includes(backend)}
                onChange={(isOn) => toggle(backend, isOn)}
              />
              <small className="t3 push">
                {formatCount(offers)} offers{configured ? "" : ", no account"}
              </small>
            </div>
          ))}
        </div>
      </Popover>
      {chosen.length > 0 && (
        <Button look="quiet" onClick={() => onChange([])}>
          Show all
        </Button>
      )}
    </span>
  );
}
