// What the server is asked: querier.v1.QuerierService in JSON, times in milliseconds.
import { ask, json } from "../api";
import { decode, type FlameData, type Tree } from "../component";
import type { Params } from "../url";

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
// A function over time. Steps begin at multiples of their length; the profiles of a step are those from its beginning on.
export interface FunctionSeries {
  labels?: { name: string; value: string }[];
  times: number[];
  self: number[];
  total: number[];
  all: number[];
}
export const functionSeries = async (type: string, selector: string, name: string, range: Range, step: number) => {
  const asked = new URLSearchParams({ query: type + selector, function: name, from: String(range.start), until: String(range.end), step: String(step) });
  return (await ask(`api/v1/functions/series?${asked}`, json<{ series?: FunctionSeries[] }>)).series ?? [];
};
// Deploys of a service, told by labels or annotations, and annotations of all services.
const DEPLOYS = 200; // the newest
export const deploys = async (service: string | undefined, { start, end }: Range) => {
  const asked = new URLSearchParams({ from: String(start), to: String(end), limit: String(DEPLOYS), ...(service && { service_name: service }) });
  return (await ask(`api/v1/deploys?${asked}`, json<{ deploys: { time: number; text: string }[] }>)).deploys;
};
// Label sets of all series.
export const series = async (labels: string[], range: Range) =>
  ((await call<{ labelsSet?: { labels?: { name: string; value: string }[] }[] }>("Series", { matchers: ["{}"], labelNames: labels, ...range })).labelsSet ?? [])
    .map((set) => Object.fromEntries((set.labels ?? []).map(({ name, value }) => [name, value])) as Record<string, string>);

const NODES = 16384;

export interface Side {
  selector: string;
  range: Range;
}

// What the server makes of stacks: pprof's filters, what a frame is, and from which end they grow.
const SHAPES: [key: string, field: string][] = [["f", "focus"], ["i", "ignore"], ["h", "hide"], ["s", "show"], ["sf", "showFrom"], ["prunefrom", "pruneFrom"], ["g", "by"]];
export type Shape = Record<string, string | boolean>;
export function shapeOf(params: Params, view: string): Shape {
  const shape: Shape = Object.fromEntries(SHAPES.filter(([key]) => params[key]).map(([key, field]) => [field, params[key]]));
  return params.rev && (view === "flame" || view === "both") ? { ...shape, reverse: true } : shape;
}
export const isFiltered = (shape: Shape) => Object.keys(shape).some((field) => field !== "by" && field !== "reverse");

export interface Drawn {
  types: [type: string, unit: string][];
  type: number;
  notes: string[];
  tree: Tree;
}
export async function readDrawn(answer: Response): Promise<Drawn> {
  const { types, type, notes, flame } = await answer.json() as Omit<Drawn, "tree"> & { flame: FlameData };
  return { types, type, notes, tree: decode(flame) };
}

function question(type: ProfileType, sides: Side[], more: object): string {
  const [profile, base] = [...sides].reverse().map(({ selector, range }) => ({ profileTypeID: type.ID, labelSelector: selector, ...range }));
  return JSON.stringify({ profile, base, ...more });
}

// The tree of stacks, or of what is below a path; of two sides, the left one first, their difference.
export const drawStacks = (type: ProfileType, sides: Side[], shape: Shape, path: string[] = []): Promise<Drawn> =>
  ask("api/v1/flame", readDrawn, question(type, sides, { ...shape, path, maxNodes: path.length ? 4 * NODES : NODES }));

// The same as a file: html or pprof.
export const fileOf = (type: ProfileType, sides: Side[], shape: Shape, format: string, more: object): Promise<Blob> =>
  ask("api/v1/flame", (answer) => answer.blob(), question(type, sides, { ...shape, format, ...more }));
