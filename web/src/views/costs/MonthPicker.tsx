import { Button, IconButton } from "@/ui/Button";
import { Icon } from "@/ui/Icon";
import { Menu } from "@/ui/Menu";
import { addMonths, formatMonth, monthsBetween } from "@/views/costs/calendar";

interface MonthPickerProps {
  month: string;
  /** The month of the first costs. */
  first: string;
  /** This month. */
  last: string;
  onPick: (month: string) => void;
}

/** The month that is shown, with buttons for the month before and after, and a menu of all months. */
export function MonthPicker({ month, first, last, onPick }: MonthPickerProps) {
  const months = monthsBetween(first < month ? first : month, last > month ? last : month);
  return (
    <div className="month-picker">
      <IconButton
        icon="chevronRight"
        className="flip"
        label="Month before"
        disabled={month <= first}
        title={month <= first ? "There are no costs before this month" : "Month before"}
        onClick={() => onPick(addMonths(month, -1))}
      />
      <Menu
        align="start"
        trigger={
          <Button look="quiet" title="Choose a month">
            <span className="long">{formatMonth(month)}</span>
            <span className="short">{formatMonth(month, "short")}</span>
            <Icon name="chevronDown" size={12} />
          </Button>
        }
        items={months.map((each) => ({ label: formatMonth(each), onSelect: () => onPick(each) }))}
      />
      <IconButton
        icon="chevronRight"
        label="Month after"
        disabled={month >= last}
        title={month >= last ? "This is the current month" : "Month after"}
        onClick={() => onPick(addMonths(month, 1))}
      />
    </div>
  );
}
