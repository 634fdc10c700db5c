// A series over time: zero-based, gaps shown as gaps; dragging chooses a range.
import uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";
import { formatValue } from "../component";
import type { Range, Series } from "./querier";

const POINTS = 300; // about

// Seconds between points.
export function stepOf(range: Range): number {
  const least = (range.end - range.start) / 1000 / POINTS;
  return [10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400].find((s) => s >= least) ?? 86400;
}

// The points of all series on one grid; where one has none stands a gap.
export function align(series: Series[], range: Range, step: number): [number[], ...(number | null)[][]] {
  const n = Math.max(1, Math.floor((range.end - range.start) / 1000 / step) + 1);
  const times = Array.from({ length: n }, (_, i) => (range.start + i * step * 1000) / 1000);
  const columns = series.map(({ points }) => {
    const column: (number | null)[] = new Array(n).fill(null);
    for (const { timestamp, value } of points) {
      const i = Math.round((Number(timestamp) - range.start) / 1000 / step);
      if (i >= 0 && i < n) column[i] = value;
    }
    return column;
  });
  return [times, ...columns];
}

// Points with a gap on either side: no line shows them.
export function alone(column: ArrayLike<number | null | undefined>): number[] {
  const empty = (i: number) => column[i] === null || column[i] === undefined;
  return Array.from({ length: column.length }, (_, i) => i).filter((i) => !empty(i) && empty(i - 1) && empty(i + 1));
}

// Hours and minutes, in the reader's zone; days too where there are several.
export function clock(seconds: number, span: number): string {
  const at = new Date(seconds * 1000);
  const two = (n: number) => String(n).padStart(2, "0");
  const time = `${two(at.getHours())}:${two(at.getMinutes())}` + (span < 300 ? ":" + two(at.getSeconds()) : "");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return span > 3 * 86400 ? day.slice(5) : span > 86400 ? day.slice(5) + " " + time : time;
}

export function Timeline({ series, range, step, unit, theme, onSelect }: {
  series: Series[];
  range: Range;
  step: number;
  unit: string;
  theme: string;
  onSelect(start: number, end: number): void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const select = useRef(onSelect);
  select.current = onSelect;
  useEffect(() => {
    const at = box.current!;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue("--" + name).trim();
    const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const plot = new uPlot({
      width: at.clientWidth, height: at.clientHeight, legend: { show: false }, padding: [8, 8, 0, 0],
      cursor: { y: false, drag: { x: true, y: false, setScale: false } },
      scales: { x: { time: true }, y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.08 : 1] } },
      axes: [{ ...axis, size: 24, values: (_u, ticks) => ticks.map((t) => clock(t, (range.end - range.start) / 1000)) }, { ...axis, size: 68, values: (_u, ticks) => ticks.map((v) => formatValue(v, unit)) }],
      series: [{}, ...series.map((_, i) => ({ stroke: colour("c" + ((i % 8) * 3)), fill: series.length === 1 ? colour("gauge") : undefined, width: 1.5,
        points: { show: true, size: 4, filter: (u: uPlot, at: number) => alone(u.data[at]) } }))],
      hooks: {
        setSelect: [(u) => {
          const { left, width } = u.select;
          if (width < 3) return;
          select.current(Math.round(u.posToVal(left, "x") * 1000), Math.round(u.posToVal(left + width, "x") * 1000));
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }],
      },
    }, align(series, range, step) as uPlot.AlignedData, at);
    const observer = new ResizeObserver(() => plot.setSize({ width: at.clientWidth, height: at.clientHeight }));
    observer.observe(at);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [series, range.start, range.end, step, unit, theme]);
  return <div class="timeline" ref={box} role="img" aria-label={`${series.length} series over time; drag to choose a range`} />;
}
