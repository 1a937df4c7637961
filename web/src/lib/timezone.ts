/** The offset of a moment from UTC as the API reads it: "+02:00". */
export function utcOffset(at: Date): string {
  const minutes = -at.getTimezoneOffset();
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  const digits = (value: number) => String(value).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${digits(hours)}:${digits(rest)}`;
}
