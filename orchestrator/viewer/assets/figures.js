// Figures as people read them. Absent is a dash, and never 0.

const ABSENT = "–";

export function number(value, digits = 3) {
  if (value === null || value === undefined) return ABSENT;
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

// 1234567 is 1.23M.
export function amount(value) {
  if (value === null || value === undefined) return ABSENT;
  for (const unit of ["", "k", "M", "G"]) {
    if (Math.abs(value) < 999.5) return `${Number(value.toPrecision(3))}${unit}`;
    value /= 1000;
  }
  return `${Number(value.toPrecision(3))}T`;
}

export function percent(value) {
  return value === null || value === undefined ? ABSENT : (100 * value).toFixed(1);
}

export function dollars(value) {
  if (value === null || value === undefined) return ABSENT;
  return value === 0 ? "$0" : value < 0.1 ? `$${value.toPrecision(2)}` : `$${value.toFixed(2)}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return ABSENT;
  if (value < 100) return `${Number(value.toPrecision(3))} s`;
  if (value < 6000) return `${(value / 60).toFixed(1)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

export function moment(milliseconds) {
  if (!milliseconds) return ABSENT;
  return new Date(milliseconds).toISOString().replace("T", " ").slice(0, 19);
}

// A value, or the bounds where episodes are missing, and the interval: [text, text].
export function measured(value, bounds, interval, show = percent) {
  const shown = bounds ? `${show(bounds[0])}..${show(bounds[1])}` : show(value);
  return [shown, interval ? `[${show(interval[0])}, ${show(interval[1])}]` : ""];
}

// Where a run comes from that was not played here from the start; "" = it was.
export function origin({ played_from: run, imported_from: files = [] }) {
  const more = files.length > 2 ? ` and ${files.length - 2} more` : "";
  if (files.length) return `imported from ${files.slice(0, 2).join(", ")}${more}`;
  return run ? `played on from ${run}` : "";
}
