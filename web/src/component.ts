// The flame graph, its table and its trees, which the self-contained HTML export has too: they
// live in src/report/flame as plain modules, so that a build without npm has the export. Here they
// get their types.
import * as canvas from "../../src/report/flame/canvas.js";
import * as core from "../../src/report/flame/core.js";
import * as graph from "../../src/report/flame/graph.js";
import * as table from "../../src/report/flame/table.js";
import * as transform from "../../src/report/flame/transform.js";

// What changes are told from: struct report_flame_noise of src/report/flame.h.
export type Noise = [leftWeight: number, rightWeight: number, scale: number, dispersion: number, uncertainty: number];

export interface FlameData {
  title: string;
  diff: number;
  reverse: number;
  normalize: number;
  merged: number;
  types: [type: string, unit: string, negative: number][];
  names: string[];
  file: number[];
  module: number[];
  line: number[];
  short: number[];
  texts: string[];
  functions: string;
  noise: (Noise | null)[];
  // Of nodes, functions' own values, functions' totals: bits as hexadecimal digits.
  marks: [string, string, string] | null;
}

export interface Tree {
  n: number;
  data: FlameData;
  frame: Uint32Array;
  parent: Int32Array;
  depth: Uint16Array;
  end: Uint32Array;
  flags: Uint8Array;
  self: Float64Array[];
  total: Float64Array[];
  maxDepth: number;
  name(i: number): string;
  isOther(i: number): boolean;
}

export type Test = (name: string, frame: number) => boolean;
export type Action = [label: string, act: () => void];

export interface FlameParts {
  canvas: HTMLCanvasElement;
  scroll: HTMLElement;
  space: HTMLElement;
  crumbs: HTMLElement;
  legend: HTMLElement;
  tip: HTMLElement;
  live: HTMLElement;
  menu: HTMLElement;
}

export interface FlameHooks {
  zoomed?(node: number): void;
  moved?(): void;
  matched?(text: string): void;
  picked?(text: string): void;
  actions?(node: number): Action[];
  other?(node: number): void;
}

export interface FlameState {
  tree: Tree;
  type: number;
  normalize: boolean;
  byModule: boolean;
  blue: boolean;
  flip: boolean;
  zoom: number;
  view: { from: number; width: number };
  sizes: { unit: string; left: Float64Array; right: Float64Array | null; first: number; w: Float64Array };
}

export interface Flame {
  state: FlameState;
  graph: { picture(): HTMLCanvasElement; svg(): string; nodeAt(x: number, y: number): number };
  zoomTo(node: number, remember?: boolean): void;
  back(): void;
  search(text: string, frames?: Uint8Array | null, picked?: number): void;
  set(changes: Partial<FlameState>): void;
  setTree(tree: Tree, zoom?: number): void;
  restyle(): void;
  resize(): void;
  key(event: KeyboardEvent, onCanvas: boolean): boolean;
  copyName(node?: number): void;
  destroy(): void;
}

export interface Column {
  key: string;
  label: string;
  value(row: number): number | string;
  text(row: number): string;
  share?(row: number): number;
  mark?(row: number): string;
  node?(row: number): Element | null;
}

export interface TableHooks {
  columns(): Column[];
  rows(): number[];
  order?(): Order;
  ordered?(order: Order): void;
  picked?(): number;
  pick?(row: number): void;
  open?(row: number): void;
  menu?(row: number, x: number, y: number): void;
  empty?: string;
}
export interface Order {
  key: string;
  down: boolean;
}
export interface VirtualTable {
  fill(): void;
  reveal(row: number): void;
  setOrder(order: Order): void;
  destroy(): void;
}

type Make = (parts: FlameParts, data: FlameData | Tree, hooks: FlameHooks) => Flame;
type Values = (row: number) => number;

export const ROW = canvas.ROW as number;
export const decode = core.decode as unknown as (data: FlameData) => Tree;
export const matcher = core.matcher as (text: string) => Test;
export const matchFrames = core.matchFrames as (tree: Tree, test: Test) => Uint8Array;
export const formatValue = core.formatValue as (value: number, unit: string) => string;
export const formatPercent = core.formatPercent as (share: number) => string;
export const signed = core.signed as (value: number, text: string) => string;
export const halfWidth = core.halfWidth as unknown as
  (values: [number, number], totals: [number, number], noise: Noise, normalize: boolean) => number;
export const functionMarks = table.functionMarks as unknown as (data: FlameData, which: 1 | 2, count: number) => Uint8Array | null;
export const markChanges = core.markChanges as unknown as (left: ArrayLike<number>, right: ArrayLike<number>, n: number, noise: Noise) => Uint8Array;
export const flameGraph = graph.flameGraph as unknown as Make;
export const copyText = graph.copyText as (text: string) => void;
export const functionValues = table.functionValues as unknown as (data: FlameData) => { self: Float64Array[]; total: Float64Array[]; count: number };
export const virtualTable = table.virtualTable as unknown as (scroll: HTMLElement, hooks: TableHooks) => VirtualTable;
export const valueColumns = table.valueColumns as unknown as
  (unit: string, total: number, flat: Values, cum: Values, prefix?: string, suffix?: string) => Column[];
export const changeColumns = table.changeColumns as unknown as
  (unit: string, before: Values, after: Values, flatChange: Values, isNoise?: (row: number) => boolean,
    isFlatNoise?: (row: number) => boolean) => Column[];
export const collapseRecursion = transform.collapseRecursion as unknown as (tree: Tree) => Tree;
export const groupByModule = transform.groupByModule as unknown as (tree: Tree) => Tree;
export const pivot = transform.pivot as unknown as
  (tree: Tree, frames: Uint8Array) => { callers: Tree; callees: Tree; found: number };
export const graft = transform.graft as unknown as (tree: Tree, node: number, sub: Tree) => Tree;
export const pathHashes = transform.pathHashes as unknown as (tree: Tree) => Uint32Array;
