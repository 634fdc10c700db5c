// Series over time: zero-based, gaps shown as gaps; dragging chooses a range.
import uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";
import { formatValue } from "../component";
import { type Brush, brushLayer } from "./brush";
import { type Marker, markerLayer, markerText } from "./marker";
import type { ProfileType, Range, Series } from "./querier";

const POINTS = 300; // about

// Seconds between points; profiles of 10 or 15 seconds fill a longer step evenly.
export function stepOf(range: Range): number {
  const least = (range.end - range.start) / 1000 / POINTS;
  return [10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400].find((s) => s >= least) ?? 86400;
}

// The seconds between two points as a rule: profiles may come more rarely than there are steps.
function usualDistance(points: Series["points"], step: number): number {
  const distances = points.slice(1).map(({ timestamp }, i) => (Number(timestamp) - Number(points[i].timestamp)) / 1000);
  const middle = [...distances].sort((a, b) => a - b)[distances.length >> 1] ?? step;
  const usual = distances.filter((d) => d <= 2 * middle);
  return Math.max(step, usual.reduce((a, b) => a + b, 0) / (usual.length || 1));
}

// Points per second, so that their height does not depend on the step. What is a state, such as
// memory in use, stays as it is.
const isState = (type: ProfileType) => type.sampleType.startsWith("inuse_");
export function rates(series: Series[], type: ProfileType, step: number): Series[] {
  if (isState(type)) return series;
  return series.map(({ labels, points }) => {
    const seconds = usualDistance(points, step);
    return { labels, points: points.map(({ timestamp, value }) => ({ timestamp, value: value / seconds })) };
  });
}
export const formatCores = (cores: number) => `${Number(cores.toPrecision(3))} ${cores === 1 ? "core" : "cores"}`;
export function formatRate(value: number, type: ProfileType): string {
  if (isState(type)) return formatValue(value, type.sampleUnit);
  if (type.sampleType === "cpu" && type.sampleUnit === "nanoseconds") return formatCores(value / 1e9);
  return formatValue(value, type.sampleUnit) + "/s";
}

// The points of all series on one grid. Where one has none for longer than its points are apart
// stands a gap (null); between them is nothing (undefined), over which the line goes.
export function align(series: Series[], range: Range, step: number): [number[], ...(number | null | undefined)[][]] {
  const n = Math.max(1, Math.floor((range.end - range.start) / 1000 / step) + 1);
  const times = Array.from({ length: n }, (_, i) => (range.start + i * step * 1000) / 1000);
  const columns = series.map(({ points }) => {
    const column: (number | null | undefined)[] = new Array(n).fill(null);
    for (const { timestamp, value } of points) {
      const i = Math.round((Number(timestamp) - range.start) / 1000 / step);
      if (i >= 0 && i < n) column[i] = value;
    }
    const filled = column.flatMap((v, i) => (v === null ? [] : [i]));
    const most = Math.ceil((2 * usualDistance(points, step)) / step);
    filled.forEach((i, k) => k && i - filled[k - 1] <= most && column.fill(undefined, filled[k - 1] + 1, i));
    return column;
  });
  return [times, ...columns];
}

// Points with a gap on either side: no line shows them.
export function alone(column: ArrayLike<number | null | undefined>): number[] {
  const found: number[] = [];
  const gap = (i: number, way: number) => {
    while (column[i] === undefined && i >= 0 && i < column.length) i += way;
    return column[i] === null || column[i] === undefined;
  };
  for (let i = 0; i < column.length; i++) if (typeof column[i] === "number" && gap(i - 1, -1) && gap(i + 1, 1)) found.push(i);
  return found;
}

// Hours and minutes, in the reader's zone; days too where there are several.
export function clock(seconds: number, span: number): string {
  const at = new Date(seconds * 1000);
  const two = (n: number) => String(n).padStart(2, "0");
  const time = `${two(at.getHours())}:${two(at.getMinutes())}` + (span < 300 ? ":" + two(at.getSeconds()) : "");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return span > 3 * 86400 ? day.slice(5) : span > 86400 ? day.slice(5) + " " + time : time;
}

export function ago(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  const [n, unit] = s < 120 ? [s, "s"] : s < 7200 ? [Math.round(s / 60), "min"] : s < 172800 ? [Math.round(s / 3600), "h"] : [Math.round(s / 86400), "days"];
  return `${n} ${unit} ago`;
}

export function span({ start, end }: Range): string {
  const seconds = (end - start) / 1000;
  return `${clock(start / 1000, seconds)} – ${clock(end / 1000, seconds)}`;
}

interface Props {
  series: Series[];
  names?: string[]; // of the series, where there are several
  colours?: number[];
  range: Range;
  step: number;
  type: ProfileType;
  theme: string;
  label?: string;
  markers?: Marker[];
  brushes?: Brush[];
  onBrush?(i: number, start: number, end: number): void;
  onSelect(start: number, end: number, lane: number): void; // lane: of the brush at that height
}

// A line without axes; a number beside it says how high it is.
export function sparkline(points: Series["points"], { start, end }: Range, w = 112, h = 20): SVGElement {
  const make = (name: string, attributes: Record<string, string>) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    return e;
  };
  const most = Math.max(...points.map((p) => p.value), 0) || 1;
  const xy = points.map(({ timestamp, value }) => `${(((Number(timestamp) - start) / (end - start)) * w).toFixed(1)} ${(h - 1 - (value / most) * (h - 2)).toFixed(1)}`);
  const svg = make("svg", { viewBox: `0 0 ${w} ${h}`, width: String(w), height: String(h), class: "spark", "aria-hidden": "true" });
  svg.append(make("path", { d: xy.length === 1 ? `M${xy[0]}h2` : "M" + xy.join("L") }));
  return svg as SVGElement;
}

export function Timeline(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const said = useRef<HTMLOutputElement>(null);
  const plot = useRef<uPlot | null>(null);
  const now = useRef(props);
  now.current = props;
  const { series, names, colours, range, step, type, theme } = props;
  const lines = series.map((_, i) => colours?.[i] ?? i);
  useEffect(() => {
    const at = box.current!;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue("--" + name).trim();
    const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const seconds = () => (now.current.range.end - now.current.range.start) / 1000;
    const line = (i: number): uPlot.Series => ({
      stroke: colour("s" + (i % 10)), fill: lines.length === 1 ? colour("gauge") : undefined, width: 1.5,
      points: { show: true, size: 4, filter: (u: uPlot, k: number) => alone(u.data[k]) },
    });
    let lane = 0;
    let brushes: ReturnType<typeof brushLayer> | null = null;
    let markers: ReturnType<typeof markerLayer> | null = null;
    const made = new uPlot({
      width: at.clientWidth, height: at.clientHeight, legend: { show: false }, padding: [16, 8, 0, 0],
      cursor: { y: false, drag: { x: true, y: false, setScale: false } },
      scales: { x: { time: true }, y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.08 : 1] } },
      axes: [{ ...axis, size: 24, space: 72, values: (_u, ticks) => ticks.map((t) => clock(t, ticks.length > 1 && ticks[1] - ticks[0] < 60 ? 0 : seconds())) },
        { ...axis, size: (_u, values) => Math.max(68, 10 + 6.2 * Math.max(...(values ?? []).map((v) => v.length), 0)), values: (_u, ticks) => ticks.map((v) => formatRate(v, type)) }],
      series: [{}, ...lines.map(line)],
      hooks: {
        setSelect: [(u) => {
          const { left, width } = u.select;
          if (width < 3) return;
          now.current.onSelect(Math.round(u.posToVal(left, "x") * 1000), Math.round(u.posToVal(left + width, "x") * 1000), lane);
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }],
        draw: [() => {
          brushes?.place();
          markers?.place();
        }],
        setCursor: [(u) => {
          const i = u.cursor.idx;
          const values = typeof i === "number" ? u.data.slice(1).map((column, k) => ({ value: column[i], name: now.current.names?.[k] ?? "" })) : [];
          const told = values.filter(({ value }) => typeof value === "number").sort((a, b) => b.value! - a.value!).slice(0, 6);
          const points = told.length ? [clock(u.data[0][i!], seconds()), ...told.map(({ name, value }) => `${name} ${formatRate(value!, type)}`.trim())] : [];
          said.current!.textContent = [...(markers?.near(u.cursor.left ?? -1) ?? []), ...points].join(" · ");
        }],
      },
    }, align(now.current.series, now.current.range, now.current.step) as uPlot.AlignedData, at);
    plot.current = made;
    markers = markerLayer(made, () => now.current.markers ?? []);
    markers.place();
    if (now.current.brushes) {
      brushes = brushLayer(made, () => now.current.brushes!, (i, start, end) => now.current.onBrush?.(i, start, end));
      brushes.place();
      made.over.addEventListener("mousedown", (event) => (lane = brushes!.laneAt(event.offsetY, made.over.clientHeight)), true);
    }
    const observer = new ResizeObserver(() => made.setSize({ width: at.clientWidth, height: at.clientHeight }));
    observer.observe(at);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [lines.join(), type.ID, theme, props.brushes?.length]);
  useEffect(() => plot.current!.redraw(false), [props.brushes?.map((b) => `${b.start} ${b.end}`).join()]);
  useEffect(() => plot.current!.redraw(false), [props.markers]);
  // Newer points need no new picture: nothing flickers, what is being dragged stays.
  useEffect(() => plot.current!.setData(align(series, range, step) as uPlot.AlignedData), [series, range.start, range.end, step]);
  return (
    <div class="timeline" role={props.brushes ? "group" : "img"} aria-label={`${props.label ?? (names ? names.join(", ") : "The profile")} over time; drag to choose a range${props.markers?.length ? `; marked: ${props.markers.map(markerText).join(", ")}` : ""}`}>
      <div class="plot" ref={box} />
      <output ref={said} aria-hidden="true" />
    </div>
  );
}
