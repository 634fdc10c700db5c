// The call graph: boxes as large as what a function uses itself, lines as wide as what passes.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { formatPercent, formatValue, matcher } from "./component";
import { type Box, type Line, layout } from "./layout";

type GraphNode = [name: string, short: string, flat: number, cum: number, width: number, height: number, x: number, y: number];
type GraphEdge = [from: number, to: number, weight: number, flags: number, points: number[]];
export interface Graph {
  notes: string[];
  unit: string;
  total: number;
  placed: number;
  dropped: [nodes: number, edges: number];
  nodes: GraphNode[];
  edges: GraphEdge[];
}

const INLINE = 1;
const RESIDUAL = 2;

function path(points: number[]): string {
  if (points.length < 8) return "";
  const parts = [`M${points[0]},${points[1]}`];
  for (let i = 2; i + 5 < points.length; i += 6) parts.push(`C${points.slice(i, i + 6).join(",")}`);
  return parts.join("");
}

// The arrow's head, in the direction in which the line ends.
function head(points: number[], size: number): string {
  const n = points.length;
  const [x, y] = [points[n - 2], points[n - 1]];
  let [dx, dy] = [x - points[n - 4], y - points[n - 3]];
  const length = Math.hypot(dx, dy) || 1;
  dx = (dx / length) * size;
  dy = (dy / length) * size;
  return `M${x},${y}L${x - dx - dy / 2},${y - dy + dx / 2}L${x - dx + dy / 2},${y - dy - dx / 2}Z`;
}

// Text in at most so many letters, its end kept: that is what tells names apart.
const clip = (text: string, most: number) => (text.length > most ? "…" + text.slice(1 - most) : text);

export function CallGraph({ graph, search, onMenu }: {
  graph: Graph;
  search: string;
  onMenu(name: string, x: number, y: number): void;
}) {
  const svg = useRef<SVGSVGElement>(null);
  const [view, setView] = useState({ x: 0, y: 0, scale: 0 });
  const { boxes, lines, width, height } = useMemo(() => {
    const b = graph.nodes.map(([, , , , w, h, x, y]): Box => ({ width: w, height: h, x, y }));
    const l = graph.edges.map(([from, to, weight, , points]): Line =>
      ({ from, to, weight: graph.total ? Math.abs(weight) / graph.total : 0, points }));
    if (!graph.placed) layout(b, l);
    return {
      boxes: b, lines: l,
      width: Math.max(1, ...b.map((box) => box.x + box.width)) + 40,
      height: Math.max(1, ...b.map((box) => box.y + box.height)),
    };
  }, [graph]);

  const fit = () => {
    const at = svg.current!.getBoundingClientRect();
    const scale = Math.min(1.25, (at.width - 32) / width, (at.height - 32) / height);
    if (scale >= 0.45 || !boxes.length) {
      setView({ scale, x: (at.width - width * scale) / 2, y: Math.max(16, (at.height - height * scale) / 2) });
      return;
    }
    // A large graph opens where most comes from, large enough to be read.
    const first = boxes.reduce((best, box, i) => {
      const [now, then] = [Math.abs(graph.nodes[i][3]), Math.abs(graph.nodes[best][3])];
      return now > then || (now === then && box.y < boxes[best].y) ? i : best;
    }, 0);
    setView({ scale: 0.7, x: at.width / 2 - 0.7 * (boxes[first].x + boxes[first].width / 2), y: 24 - 0.7 * boxes[first].y });
  };
  const all = () => {
    const at = svg.current!.getBoundingClientRect();
    const scale = Math.min(1.25, (at.width - 32) / width, (at.height - 32) / height);
    setView({ scale, x: (at.width - width * scale) / 2, y: (at.height - height * scale) / 2 });
  };
  useEffect(fit, [graph]);

  const zoom = (factor: number, x?: number, y?: number) => setView((v) => {
    const at = svg.current!.getBoundingClientRect();
    const [px, py] = [x === undefined ? at.width / 2 : x - at.left, y === undefined ? at.height / 2 : y - at.top];
    const scale = Math.min(4, Math.max(0.05, v.scale * factor));
    return { scale, x: px - ((px - v.x) * scale) / v.scale, y: py - ((py - v.y) * scale) / v.scale };
  });

  useEffect(() => {
    const at = svg.current!;
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey) zoom(1.0025 ** -event.deltaY, event.clientX, event.clientY);
      else setView((v) => ({ ...v, x: v.x - event.deltaX, y: v.y - event.deltaY }));
    };
    at.addEventListener("wheel", wheel, { passive: false });
    return () => at.removeEventListener("wheel", wheel);
  }, []);

  const drag = useRef<{ x: number; y: number; moved: boolean } | null>(null);
  const found = search ? matcher(search) : null;
  const most = Math.max(1, ...graph.nodes.map((node) => Math.abs(node[3])));
  const value = (v: number) => formatValue(v, graph.unit);
  const share = (v: number) => formatPercent(graph.total ? v / graph.total : 0);

  return (
    <div class="graph">
      <svg ref={svg} role="group" aria-label="Call graph; the table and Peek have the same data as text"
        onPointerDown={(event) => {
          if (event.button === 0) drag.current = { x: event.clientX, y: event.clientY, moved: false };
        }}
        onPointerMove={(event) => {
          const d = drag.current;
          if (!d || !(event.buttons & 1)) return;
          if (!d.moved && Math.hypot(event.clientX - d.x, event.clientY - d.y) < 4) return;
          if (!d.moved) svg.current!.setPointerCapture(event.pointerId);
          const [dx, dy] = [event.clientX - d.x, event.clientY - d.y];
          drag.current = { x: event.clientX, y: event.clientY, moved: true };
          setView((v) => ({ ...v, x: v.x + dx, y: v.y + dy }));
        }}
        onPointerUp={() => setTimeout(() => (drag.current = null))}>
        <g transform={`translate(${view.x},${view.y}) scale(${view.scale || 0.001})`}>
          {lines.map((line, i) => {
            const [from, to, weight, flags] = graph.edges[i];
            const wide = 1 + 7 * Math.sqrt(line.weight);
            const dim = found && !found(graph.nodes[from][0], from) && !found(graph.nodes[to][0], to);
            const mid = Math.floor(line.points.length / 4) * 2;
            const [mx, my] = from === to ? [line.points[2] + 4, (line.points[1] + line.points[7]) / 2]
              : line.points.length === 8
                ? [(line.points[0] + 3 * line.points[2] + 3 * line.points[4] + line.points[6]) / 8, (line.points[1] + line.points[7]) / 2]
                : [line.points[mid], line.points[mid + 1]];
            return (
              <g key={from + "-" + to} class={"edge" + (dim ? " dim" : "")} opacity={0.35 + 0.65 * Math.min(1, line.weight * 4)}>
                <path d={path(line.points)} stroke-width={wide} stroke-dasharray={flags & RESIDUAL ? "3 5" : undefined} />
                <path class="head" d={head(line.points, 6 + wide)} />
                <text x={mx + 5} y={my}>{value(weight)}{flags & INLINE ? " inline" : ""}</text>
                <title>{`${graph.nodes[from][0].slice(0, 300)} → ${graph.nodes[to][0].slice(0, 300)}\n${value(weight)} ${share(weight)}${flags & INLINE ? ", inlined" : ""}${flags & RESIDUAL ? ", with calls in between left out" : ""}`}</title>
              </g>
            );
          })}
          {graph.nodes.map(([name, short, flat, cum], i) => {
            const box = boxes[i];
            const font = (box.height - 8) / 3.3;
            const down = cum === flat ? font * 0.45 : 0; // two lines instead of three
            const dim = found && !found(name, i);
            const open = (x: number, y: number) => onMenu(name, x, y);
            return (
              <g key={name + i} class={"node" + (dim ? " dim" : "") + (found && !dim ? " hit" : "")} tabindex={0} role="button"
                aria-label={`${name.slice(0, 300)}: self ${value(flat)}, ${share(flat)}; total ${value(cum)}, ${share(cum)}`}
                transform={`translate(${box.x},${box.y})`}
                onClick={(event) => drag.current?.moved || open(event.clientX, event.clientY)}
                onContextMenu={(event) => {
                  event.preventDefault();
                  open(event.clientX, event.clientY);
                }}
                onKeyDown={(event) => {
                  if (event.key !== "Enter") return;
                  event.preventDefault(); // or it chooses the menu's first line
                  const at = event.currentTarget.getBoundingClientRect();
                  open(at.left + 8, at.bottom);
                }}>
                <rect width={box.width} height={box.height} rx="5" class={cum < 0 ? "less" : ""}
                  fill-opacity={0.08 + 0.72 * Math.sqrt(Math.abs(cum) / most)} />
                <text x={box.width / 2} y={down + font * 1.25} font-size={font} class="name">{clip(short, Math.floor((box.width - 12) / font / 0.6))}</text>
                <text x={box.width / 2} y={down + font * 2.3} font-size={font * 0.82}>
                  {flat ? `${value(flat)} (${share(flat)})` : "0"}
                </text>
                {cum !== flat && <text x={box.width / 2} y={font * 3.2} font-size={font * 0.82}>{`of ${value(cum)} (${share(cum)})`}</text>}
                <title>{`${name.slice(0, 1000)}\nself ${value(flat)} ${share(flat)}\ntotal ${value(cum)} ${share(cum)}`}</title>
              </g>
            );
          })}
        </g>
      </svg>
      <div class="corner">
        <button onClick={() => zoom(1.3)} aria-label="Larger">+</button>
        <button onClick={() => zoom(1 / 1.3)} aria-label="Smaller">−</button>
        <button onClick={all}>Fit</button>
      </div>
      <footer class="legend">
        <span class="key">{graph.nodes.length} functions, {graph.edges.length} calls</span>
        {graph.dropped[0] + graph.dropped[1] > 0 && (
          <span class="key">{graph.dropped[0]} functions and {graph.dropped[1]} calls that are too small left out</span>
        )}
        <span class="key">{graph.placed ? "placed by Graphviz" : "placed by kiln"}</span>
      </footer>
    </div>
  );
}
