// The timeline that two selections share, with a brush for each.
import { useRef } from "preact/hooks";
import { useLoaded } from "../api";
import { go } from "../url";
import { deploys, type Range, selectSeries } from "./querier";
import type { Selection } from "./selection";
import { serviceOf } from "./selector";
import { rates, stepOf, Timeline } from "./timeline";

const AROUND = 0.25; // of what both have, on either side

// It stays while ranges change within it, so that a brush stays under the hand that moves it.
function rangeAround(old: Range | null, sides: Range[], now: number): Range {
  const start = Math.min(...sides.map((r) => r.start));
  const end = Math.max(...sides.map((r) => r.end));
  if (old && start >= old.start && end <= old.end && end - start > 0.2 * (old.end - old.start)) return old;
  const more = (end - start) * AROUND;
  return { start: Math.round(start - more), end: Math.round(Math.max(end, Math.min(now, end + more))) };
}

export function Overview({ left, right, tick, theme }: { left: Selection; right: Selection; tick: number; theme: string }) {
  const type = right.type ?? left.type;
  const kept = useRef<Range | null>(null);
  const known = type && left.selector && right.selector;
  if (known) kept.current = rangeAround(kept.current, [left.range, right.range], tick);
  const range = kept.current;
  const selectors = [...new Set([left.selector, right.selector])];
  const { data } = useLoaded(known && range ? ["overview", type.ID, ...selectors, range.start, range.end].join("\n") : null, async () => {
    const step = stepOf(range!);
    const [service, other] = [serviceOf(left.matchers), serviceOf(right.matchers)];
    const [lines, markers] = await Promise.all([Promise.all(selectors.map((selector) => selectSeries(type!.ID, selector, range!, step))),
      deploys(service === other ? service : undefined, range!).catch(() => [])]);
    return { markers, series: lines.map((all) => rates(all, type!, step)[0] ?? { labels: [], points: [] }), several: lines.length > 1, range: range!, step, type: type! };
  });
  if (!data) return <div class="overview"><div class="timeline" /></div>;
  const sides = [left, right];
  const set = (i: number, start: number, end: number) => go({ [sides[i].prefix + "from"]: String(start), [sides[i].prefix + "until"]: String(end), z: "" });
  return (
    <div class="overview">
      <Timeline series={data.series} names={data.several ? ["Left", "Right"] : undefined} range={data.range} step={data.step} type={data.type} theme={theme} label="Both sides" markers={data.markers}
        brushes={sides.map((side, i) => ({ label: i ? "Right" : "Left", colour: data.several ? i : 9, ...side.range }))} onBrush={set}
        onSelect={(start, end, lane) => set(lane, start, end)} />
    </div>
  );
}
