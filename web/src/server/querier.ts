// What the server is asked: querier.v1.QuerierService in JSON, times in milliseconds.
import { ask, json } from "../api";
import { type Flamebearer, fromFlamebearer, subtree } from "../bearer";
import type { Tree } from "../component";

export interface ProfileType {
  ID: string;
  name: string;
  sampleType: string;
  sampleUnit: string;
}
// An id has all of it.
export function typeOf(id = ""): ProfileType | undefined {
  const [name, sampleType, sampleUnit, ...rest] = id.split(":");
  return rest.length === 2 ? { ID: id, name, sampleType, sampleUnit } : undefined;
}

export interface Series {
  labels: { name: string; value: string }[];
  points: { value: number; timestamp: string }[];
}
export interface Range {
  start: number;
  end: number;
}

async function call<T>(method: string, body: object): Promise<T> {
  const text = JSON.stringify(body);
  // The key keeps questions apart; the answer to a range that ends now is not kept long.
  return ask(`querier.v1.QuerierService/${method}`, json<T>, text);
}

export const profileTypes = async (range: Range) =>
  (await call<{ profileTypes?: ProfileType[] }>("ProfileTypes", range)).profileTypes ?? [];
export const labelNames = async (matchers: string[], range: Range) =>
  ((await call<{ names?: string[] }>("LabelNames", { matchers, ...range })).names ?? []).filter((name) => !/^__/.test(name));
export const labelValues = async (name: string, matchers: string[], range: Range) =>
  (await call<{ names?: string[] }>("LabelValues", { name, matchers, ...range })).names ?? [];
export const selectSeries = async (type: string, selector: string, range: Range, step: number, groupBy: string[] = []) =>
  ((await call<{ series?: Series[] }>("SelectSeries", { profileTypeID: type, labelSelector: selector, groupBy, step, ...range })).series ?? [])
    .map((one) => ({ ...one, labels: one.labels ?? [] })); // what lacks the label comes without any
// Label sets of all series.
export const series = async (labels: string[], range: Range) =>
  ((await call<{ labelsSet?: { labels?: { name: string; value: string }[] }[] }>("Series", { matchers: ["{}"], labelNames: labels, ...range })).labelsSet ?? [])
    .map((set) => Object.fromEntries((set.labels ?? []).map(({ name, value }) => [name, value])) as Record<string, string>);

const NODES = 16384;

// What is merged: of a tree below a path more is shown.
const merged = (type: string, labelSelector: string, range: Range, path: string[]) => ({
  profileTypeID: type, labelSelector, maxNodes: path.length ? NODES : 4 * NODES, ...range, stackTraceSelector: { callSite: path.map((name) => ({ name })) },
});

// The tree of stacks, or of what is below a path; null if there are none.
export async function mergeTree(type: ProfileType, selector: string, range: Range, path?: string[]): Promise<Tree | null> {
  const asked = { ...merged(type.ID, selector, range, path ?? []), ...(path ? {} : { maxNodes: NODES }) };
  return treeOf((await call<{ flamegraph?: Flamebearer }>("SelectMergeStacktraces", asked)).flamegraph, type, false, path);
}

export interface Side {
  selector: string;
  range: Range;
}
export async function diffTree(type: ProfileType, sides: [Side, Side], path?: string[]): Promise<Tree | null> {
  const [left, right] = sides.map(({ selector, range }) => ({ ...merged(type.ID, selector, range, path ?? []), ...(path ? {} : { maxNodes: NODES }) }));
  return treeOf((await call<{ flamegraph?: Flamebearer }>("Diff", { left, right })).flamegraph, type, true, path);
}

function treeOf(bearer: Flamebearer | undefined, type: ProfileType, diff: boolean, path?: string[]): Tree | null {
  if (!bearer || !(Number(bearer.total) > 0)) return null;
  const tree = fromFlamebearer(bearer, type.sampleType, type.sampleUnit, diff);
  return path ? subtree(tree, path) : tree;
}

// The sum over a range.
async function sumOf(type: string, { selector, range }: Side): Promise<number> {
  const all = await selectSeries(type, selector, range, Math.max(1, (range.end - range.start) / 1000));
  return all.reduce((sum, { points }) => points.reduce((s, { value }) => s + value, sum), 0);
}

// How much an event weighs on each side: what noise may explain follows from it. Null where the
// profiles do not tell how many events there were.
export async function eventsOf(type: ProfileType, types: ProfileType[], sides: [Side, Side]): Promise<[number, number] | null> {
  if (type.sampleUnit === "count" && type.sampleType === "samples") return [1, 1];
  const counts = types.find((t) => t.name === type.name && t.sampleType === "samples" && t.sampleUnit === "count");
  if (type.sampleUnit !== "nanoseconds" || !counts) return null;
  const weights = await Promise.all(sides.map(async (side) => {
    const [value, n] = await Promise.all([sumOf(type.ID, side), sumOf(counts.ID, side)]);
    return n > 0 ? value / n : 0;
  }));
  // A side without samples has the other one's events: none of them is noise.
  return weights.some((w) => w > 0) ? [weights[0] || weights[1], weights[1] || weights[0]] : null;
}
