/** What was read from the code, with the line each fact comes from. */

import type { Schemas } from "@/api/client";
import { Popover } from "@/ui/Menu";
import { Button } from "@/ui/Button";
import type { Plan } from "@/views/new/offers";

type Fact = Schemas["WorkloadFact"];

interface FactsProps {
  plan: Plan;
  onShowLine: (file: string, line: number) => void;
}

/** Shown first, with a shorter name. The others are in the list. */
const MAIN: readonly [what: string, label: string][] = [
  ["model", "Model"],
  ["data set", "Data"],
  ["epochs", "Epochs"],
  ["steps", "Steps"],
  ["precision", "Precision"],
  ["GPU memory", "GPU memory"],
  ["can resume", "Resumes"],
];

export function Facts({ plan, onShowLine }: FactsProps) {
  const facts = plan.workload;
  if (facts.length === 0) return null;
  const unread = facts.filter((fact) => fact.what === "not read");
  const main = MAIN.flatMap(([what, label]) => {
    const fact = facts.find((each) => each.what === what);
    return fact === undefined ? [] : [{ label, fact, value: shortValue(fact, facts) }];
  });
  return (
    <div className="facts">
      <dl className="found" aria-label="Read from the code">
        {unread.map((fact) => (
          <FoundFact
            key={fact.where}
            label={fact.file ?? "File"}
            fact={fact}
            value={fact.value}
            onShowLine={onShowLine}
          />
        ))}
        {main.map(({ label, fact, value }) => (
          <FoundFact key={label} label={label} fact={fact} value={value} onShowLine={onShowLine} />
        ))}
      </dl>
      <Popover trigger={<Button look="quiet">All facts</Button>} label="All facts" align="end">
        <table className="tbl all-facts">
          <tbody>
            {facts.map((fact) => (
              <tr key={fact.what + fact.where}>
                <th scope="row">{fact.what}</th>
                <td className="two">
                  {fact.value}
                  <small>{[fact.because, fact.where].filter(Boolean).join(", ")}</small>
                </td>
                <td>{fact.sure === "-" ? "" : fact.sure}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Popover>
    </div>
  );
}

interface FoundFactProps {
  label: string;
  fact: Fact;
  value: string;
  onShowLine: (file: string, line: number) => void;
}

function FoundFact({ label, fact, value, onShowLine }: FoundFactProps) {
  const { file = "", line = 0 } = fact;
  return (
    <div>
      <dt>{label}</dt>
      <dd title={fact.because}>
        <span className="fact-value" title={value}>
          {value}
        </span>{" "}
        {line > 0 && (
          <button
            type="button"
            className="ref"
            title={`${file}:${line}`}
            onClick={() => onShowLine(file, line)}
          >
            line {line}
          </button>
        )}
      </dd>
    </div>
  );
}

function shortValue(fact: Fact, all: readonly Fact[]): string {
  if (fact.what === "model") {
    const parameters = all.find((each) => each.what === "parameters")?.value;
    return parameters === undefined ? fact.value : `${fact.value}, ${parameters}`;
  }
  return fact.what === "GPU memory" ? (fact.value.split(" (")[0] ?? fact.value) : fact.value;
}
