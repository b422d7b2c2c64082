// Human-readable numbers, sizes and times.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const whole = (value) => WHOLE.format(value);

/** Format bytes in powers of 1,000: 1234 -> "1.2 kB". */
export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 10 ? value.toFixed(1) : WHOLE.format(value)} ${units[unit]}`;
}

/** Format seconds: "85 ms", "1.4 s", "2 min 5 s". */
export function seconds(value) {
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`;
  if (value < 59.95) return `${value.toFixed(1)} s`;
  const total = Math.round(value);
  return `${Math.floor(total / 60)} min ${total % 60} s`;
}

/** Format a position in seconds: "1:05". */
export function clock(value) {
  const total = Math.max(0, Math.floor(value));
  const [hours, minutes, rest] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  const two = (part) => String(part).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** Format a past time: the time of day if it was today, otherwise the date. */
export function when(milliseconds) {
  const date = new Date(milliseconds);
  const isToday = date.toDateString() === new Date().toDateString();
  const style = isToday ? { hour: "2-digit", minute: "2-digit", hour12: false } : { day: "numeric", month: "short" };
  return new Intl.DateTimeFormat(undefined, style).format(date);
}

export const plural = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;

/** Join words: "a", "a and b", "a, b and c". */
export function listed(words, last = "and") {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} ${last} ${words.at(-1)}`;
}

/** Format a device: "cpu" -> "CPU"; numbered devices keep their names. */
export const deviceName = (device) => (device === "cpu" ? "CPU" : device);
