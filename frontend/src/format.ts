// Numbers as people read them.

export function count(value: number): string {
  return value.toLocaleString("en-US");
}

/** Of a class: what is below a thousandth need not be told apart. */
export function share(value: number): string {
  return value !== 0 && value < 0.0005 ? "<0.001" : value.toFixed(3);
}

/** Of an edge: all of a graph's may be small. */
export function probability(value: number): string {
  return value !== 0 && value < 0.0005 ? value.toExponential(1) : value.toFixed(3);
}

export function short(value: number): string {
  if (Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(3);
  return String(Number(value.toPrecision(6)));
}

/** Some digits, but never fewer than stand before the point: 151234 is not 151230. */
export function digits(value: number, most: number): string {
  return String(Math.abs(value) >= 10 ** most ? Math.round(value) : Number(value.toPrecision(most)));
}

export function slug(title: string): string {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "graph";
}
