/** Form controls: segmented control, switch, checkbox, slider, text field. */

import {
  useEffect,
  useId,
  useRef,
  type CSSProperties,
  type InputHTMLAttributes,
  type ReactNode,
  type Ref,
} from "react";
import { Icon, type IconName } from "@/ui/Icon";

interface Choice<T extends string> {
  value: T;
  label: string;
  icon?: IconName;
  count?: number;
}

interface SegmentedProps<T extends string> {
  label: string;
  value: T;
  choices: readonly Choice<T>[];
  onChange: (value: T) => void;
}

/** One of a few choices, all visible. */
export function Segmented<T extends string>({ label, value, choices, onChange }: SegmentedProps<T>) {
  const icons = choices.every((choice) => choice.icon !== undefined);
  return (
    <span className={icons ? "seg icons" : "seg"} role="group" aria-label={label}>
      {choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          aria-pressed={choice.value === value}
          aria-label={icons ? choice.label : undefined}
          title={icons ? choice.label : undefined}
          onClick={() => onChange(choice.value)}
        >
          {choice.icon === undefined ? choice.label : <Icon name={choice.icon} size={14} />}
          {choice.count !== undefined && <span className="n">{choice.count}</span>}
        </button>
      ))}
    </span>
  );
}

interface SwitchProps {
  label: string;
  checked: boolean;
  onChange: (checked: boolean) => void;
}

export function Switch({ label, checked, onChange }: SwitchProps) {
  return (
    <label className="switch">
      <input
        type="checkbox"
        role="switch"
        checked={checked}
        aria-checked={checked}
        onChange={(event) => onChange(event.target.checked)}
      />
      {label}
    </label>
  );
}

interface CheckboxProps {
  label: string;
  checked: boolean | "mixed";
  onChange: (checked: boolean) => void;
  /** Show the label beside the box instead of only to screen readers. */
  showLabel?: boolean;
}

export function Checkbox({ label, checked, onChange, showLabel = false }: CheckboxProps) {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (box.current) box.current.indeterminate = checked === "mixed";
  }, [checked]);
  const input = (
    <input
      ref={box}
      type="checkbox"
      className={checked === "mixed" ? "check mixed" : "check"}
      aria-label={showLabel ? undefined : label}
      checked={checked === true}
      onChange={(event) => onChange(event.target.checked)}
    />
  );
  return showLabel ? (
    <label className="check-label">
      {input}
      {label}
    </label>
  ) : (
    input
  );
}

interface SliderProps extends Omit<InputHTMLAttributes<HTMLInputElement>, "onChange" | "value"> {
  value: number;
  min: number;
  max: number;
  onChange: (value: number) => void;
}

export function Slider({ value, min, max, onChange, ...rest }: SliderProps) {
  const filled = max > min ? ((value - min) / (max - min)) * 100 : 0;
  return (
    <input
      type="range"
      className="slider"
      min={min}
      max={max}
      value={value}
      style={{ "--p": `${filled.toFixed(1)}%` } as CSSProperties}
      onChange={(event) => onChange(Number(event.target.value))}
      {...rest}
    />
  );
}

interface TextFieldProps extends Omit<InputHTMLAttributes<HTMLInputElement>, "onChange" | "value"> {
  label: string;
  value: string;
  onChange: (value: string) => void;
  icon?: IconName;
  /** What is wrong with the value. */
  error?: string;
  /** Show the label above the field instead of only to screen readers. */
  showLabel?: boolean;
  suffix?: ReactNode;
  ref?: Ref<HTMLInputElement>;
}

export function TextField(props: TextFieldProps) {
  const { label, value, onChange, icon, error, showLabel = false, suffix, className, ...rest } = props;
  const id = useId();
  return (
    <div className={className ?? "text-field"}>
      <label className={showLabel ? "field-label" : "sr"} htmlFor={id}>
        {label}
      </label>
      <span className={error === undefined ? "field" : "field invalid"}>
        {icon !== undefined && <Icon name={icon} size={14} />}
        <input
          id={id}
          value={value}
          aria-invalid={error !== undefined}
          aria-describedby={error === undefined ? undefined : `${id}-error`}
          onChange={(event) => onChange(event.target.value)}
          {...rest}
        />
        {suffix}
      </span>
      {error !== undefined && (
        <small id={`${id}-error`} className="bad field-error">
          {error}
        </small>
      )}
    </div>
  );
}
