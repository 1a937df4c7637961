import { DropdownMenu as Primitive, Popover as PopoverPrimitive } from "radix-ui";
import type { ReactNode } from "react";
import { Icon, type IconName } from "@/ui/Icon";

export interface MenuItem {
  label: string;
  icon?: IconName;
  danger?: boolean;
  /** The item is shown but cannot be chosen, for this reason. */
  disabledReason?: string;
  detail?: string;
  onSelect: () => void;
}

interface MenuProps {
  /** The button that opens the menu; it must accept a ref and button props. */
  trigger: ReactNode;
  items: readonly MenuItem[];
  align?: "start" | "end";
}

/** A menu of actions that opens below its button. */
export function Menu({ trigger, items, align = "end" }: MenuProps) {
  return (
    <Primitive.Root modal={false}>
      <Primitive.Trigger asChild>{trigger}</Primitive.Trigger>
      <Primitive.Portal>
        <Primitive.Content className="menu" align={align} sideOffset={4} collisionPadding={8}>
          {items.map((item) => (
            <Primitive.Item
              key={item.label}
              className={item.danger ? "menu-item danger" : "menu-item"}
              disabled={item.disabledReason !== undefined}
              title={item.disabledReason}
              onSelect={item.onSelect}
            >
              {item.icon !== undefined && <Icon name={item.icon} size={14} />}
              <span>{item.label}</span>
              {item.detail !== undefined && <small className="t3">{item.detail}</small>}
            </Primitive.Item>
          ))}
        </Primitive.Content>
      </Primitive.Portal>
    </Primitive.Root>
  );
}

interface PopoverProps {
  trigger: ReactNode;
  label: string;
  children: ReactNode;
  align?: "start" | "end";
}

/** A panel with controls that opens below its button. */
export function Popover({ trigger, label, children, align = "start" }: PopoverProps) {
  return (
    <PopoverPrimitive.Root>
      <PopoverPrimitive.Trigger asChild>{trigger}</PopoverPrimitive.Trigger>
      <PopoverPrimitive.Portal>
        <PopoverPrimitive.Content
          className="popover"
          align={align}
          sideOffset={4}
          collisionPadding={8}
          aria-label={label}
        >
          {children}
        </PopoverPrimitive.Content>
      </PopoverPrimitive.Portal>
    </PopoverPrimitive.Root>
  );
}
