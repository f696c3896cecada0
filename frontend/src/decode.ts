// The bytes of a page (see explorer/encoding.py) as a Page.

import type { Column, Graph, Page, TextColumn } from "./page";

type Ref = [offset: number, length: number, type: string];
type Numbers = Uint8Array | Uint16Array | Uint32Array | Int32Array | Float32Array | Float64Array;

interface Header {
  title: string;
  nodes: number;
  names: Ref;
  target: string;
  classes: string[];
  label: Ref | null;
  prediction: Ref | null;
  probability: Ref | null;
  split: RawText | null;
  graphs: { name: string; meaning: string; chosen: Ref; source: Ref; probability: Ref; place: Ref | null }[];
  columns: ((RawText | RawNumber) & { name: string })[];
  notes: string[];
}
interface RawText {
  kind: "text";
  values: Ref;
  levels: Ref;
}
interface RawNumber {
  kind: "number";
  values: Ref;
  decimals: number;
}

const MISSING = -(2 ** 31);
const ARRAYS = {
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
} as const;

export async function decode(base64: string): Promise<Page> {
  const bytes = fromBase64(base64);
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const header: Header = JSON.parse(text(await inflate(bytes.subarray(4, 4 + length))));
  const body = bytes.subarray(4 + length);

  const part = ([offset, size]: Ref) => inflate(body.subarray(offset, offset + size));
  const words = async (ref: Ref): Promise<string[]> => JSON.parse(text(await part(ref)));
  const numbers = async <T extends Numbers>(ref: Ref): Promise<T> =>
    new ARRAYS[ref[2] as keyof typeof ARRAYS](await part(ref)) as Numbers as T;
  const maybe = async <T extends Numbers>(ref: Ref | null) => (ref ? numbers<T>(ref) : null);

  const textColumn = async (name: string, raw: RawText): Promise<TextColumn> => ({
    kind: "text",
    name,
    codes: await numbers(raw.values),
    levels: await words(raw.levels),
  });
  const column = async (raw: (RawText | RawNumber) & { name: string }): Promise<Column> =>
    raw.kind === "text"
      ? textColumn(raw.name, raw)
      : { kind: "number", name: raw.name, values: scaled(await numbers(raw.values), raw.decimals), decimals: raw.decimals };

  const graphs: Graph[] = [];
  for (const raw of header.graphs) {
    const place: Float32Array = (await maybe<Float32Array>(raw.place)) ?? graphs[0].place;
    graphs.push(
      indexed(raw.name, raw.meaning, await numbers(raw.chosen), await numbers(raw.source), await numbers(raw.probability), place),
    );
  }
  return {
    title: header.title,
    nodes: header.nodes,
    names: await words(header.names),
    target: header.target,
    classes: header.classes,
    label: await maybe<Int32Array | Float64Array>(header.label),
    prediction: await maybe<Int32Array | Float64Array>(header.prediction),
    probability: await maybe<Float32Array>(header.probability),
    split: header.split && (await textColumn("split", header.split)),
    graphs,
    columns: await Promise.all(header.columns.map(column)),
    notes: header.notes,
  };
}

function fromBase64(base64: string): Uint8Array<ArrayBuffer> {
  const characters = atob(base64);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

async function inflate(data: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

function text(data: ArrayBuffer): string {
  return new TextDecoder().decode(data);
}

/** Numbers with few decimals come as whole numbers. */
function scaled(values: Numbers, decimals: number): Float64Array | Float32Array {
  if (decimals < 0) return values as Float64Array | Float32Array;
  const unit = 10 ** decimals;
  return Float64Array.from(values, (value) => (value === MISSING ? NaN : value / unit));
}

function indexed(
  name: string,
  meaning: string,
  counts: Uint32Array,
  source: Uint32Array,
  probability: Float32Array,
  place: Float32Array,
): Graph {
  const n = counts.length;
  const target = new Uint32Array(source.length);
  const chosen = new Uint32Array(n + 1);
  for (let i = 0; i < n; i++) {
    chosen[i + 1] = chosen[i] + counts[i];
    target.fill(i, chosen[i], chosen[i + 1]);
  }
  const choosers = new Uint32Array(n + 1);
  for (const node of source) choosers[node + 1]++;
  for (let i = 0; i < n; i++) choosers[i + 1] += choosers[i];
  const next = choosers.slice(0, n);
  const choosing = new Uint32Array(source.length);
  for (let e = 0; e < source.length; e++) choosing[next[source[e]]++] = e;
  for (let i = 0; i < n; i++)
    choosing.subarray(choosers[i], choosers[i + 1]).sort((a, b) => probability[b] - probability[a] || a - b);
  const highest = probability.reduce((a, b) => Math.max(a, b), 0) || 1;
  return { name, meaning, source, target, probability, highest, chosen, choosers, choosing, place };
}
