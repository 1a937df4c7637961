import type { ButtonHTMLAttributes } from "react";
import { Icon, type IconName } from "@/ui/Icon";

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: "default" | "primary" | "quiet" | "danger" | "danger-fill";
  icon?: IconName;
  large?: boolean;
  /** The key that does the same, shown on the button. */
  shortcut?: string;
}

/** A button with text. Give a `title` with the reason when it is disabled. */
export function Button({
  look = "default",
  icon,
  large,
  shortcut,
  children,
  className,
  ...rest
}: ButtonProps) {
  const classes = ["btn", look === "default" ? "" : look, large ? "large" : "", className ?? ""];
  return (
    <button type="button" className={classes.filter(Boolean).join(" ")} {...rest}>
      {icon !== undefined && <Icon name={icon} size={14} />}
      {children}
      {shortcut !== undefined && <kbd aria-hidden="true">{shortcut}</kbd>}
    </button>
  );
}

interface IconButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  icon: IconName;
  label: string;
  mini?: boolean;
}

/** A button with only an icon. The label is read by screen readers and shown on hover. */
export function IconButton({ icon, label, mini, className, title, ...rest }: IconButtonProps) {
  return (
    <button
      type="button"
      className={["btn quiet icon", mini ? "mini" : "", className ?? ""].filter(Boolean).join(" ")}
      aria-label={label}
      title={title ?? label}
      {...rest}
    >
      <Icon name={icon} size={mini ? 12 : 14} />
    </button>
  );
}
