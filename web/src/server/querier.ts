// What the server is asked: querier.v1.QuerierService in JSON, times in milliseconds.
import { ask, json } from "../api";
import type { Flamebearer } from "../bearer";

export interface ProfileType {
  ID: string;
  name: string;
  sampleType: string;
  sampleUnit: string;
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
  (await call<{ series?: Series[] }>("SelectSeries", { profileTypeID: type, labelSelector: selector, groupBy, step, ...range })).series ?? [];
export const mergeStacktraces = async (type: string, selector: string, range: Range, maxNodes = 16384) =>
  (await call<{ flamegraph?: Flamebearer }>("SelectMergeStacktraces", { profileTypeID: type, labelSelector: selector, maxNodes, ...range })).flamegraph;

export const diff = async (type: string, leftSelector: string, leftRange: Range, rightSelector: string, rightRange: Range, maxNodes = 16384) => {
  const side = (labelSelector: string, range: Range) => ({ profileTypeID: type, labelSelector, maxNodes, ...range });
  return (await call<{ flamegraph?: Flamebearer }>("Diff", { left: side(leftSelector, leftRange), right: side(rightSelector, rightRange) })).flamegraph;
};
