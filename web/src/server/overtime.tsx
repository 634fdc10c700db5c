// The selected function over the shown range: what it, and what it calls, amounts to.
import { useLoaded } from "../api";
import { formatPercent } from "../component";
import { go } from "../url";
import { deploys, type FunctionSeries, functionSeries, type Range, type Series } from "./querier";
import type { Selection } from "./selection";
import { serviceOf } from "./selector";
import { formatRate, rates, stepOf, Timeline } from "./timeline";

// A point is at the end of its step, as those of the profile's timeline are; steps that the range has a part of only
// would look like a change.
function linesOf(series: FunctionSeries[], range: Range, step: number): Series[] {
  const { times = [], self = [], total = [] } = series[0] ?? {};
  const ends = times.map((time) => time + step * 1000);
  const whole = ends.map((_, i) => i).filter((i) => ends[i] >= range.start && ends[i] <= range.end);
  return [total, self].map((values) => ({ labels: [], points: whole.map((i) => ({ timestamp: String(ends[i]), value: values[i] })) }));
}

const add = (values: number[] = []) => values.reduce((sum, v) => sum + v, 0);
const mean = ({ points }: Series) => add(points.map(({ value }) => value)) / (points.length || 1);

export function OverTime({ name, selection: { type, selector, matchers, range, prefix }, theme, filtered }: { name: string; selection: Selection; theme: string; filtered: boolean }) {
  const key = type && selector ? [type.ID, selector, name, range.start, range.end].join("\n") : null;
  const { data, error, retry } = useLoaded(key, async () => {
    const step = stepOf(range);
    const [series, markers] = await Promise.all([functionSeries(type!.ID, selector, name, range, step), deploys(serviceOf(matchers), range).catch(() => [])]);
    // The grid is the steps' own.
    const start = Math.ceil(range.start / step / 1000) * step * 1000;
    const all = add(series[0]?.all);
    return { name, step, markers, range: { start, end: Math.max(range.end, start) }, lines: rates(linesOf(series, range, step), type!, step), share: all ? add(series[0].total) / all : 0, any: add(series[0]?.total) > 0 };
  });
  if (!type) return null;
  const now = data?.name === name ? data : null;
  return (
    <section class="over-time" aria-label={`${name} over time`}>
      <p>
        <b title={name}>{name}</b>
        {now?.any && ["total", "self"].map((what, i) => (
          <span key={what}><i class="dot" style={{ background: `var(--s${i})` }} />{what} {formatRate(mean(now.lines[i]), type)}</span>
        ))}
        {now?.any && <span class="faint">{formatPercent(now.share)} of everything{filtered ? ", without the filters" : ""}</span>}
        {now && !now.any && <span class="faint">no samples in this range</span>}
        {error && <><span class="problem">{error}</span><button class="quiet" onClick={retry}>Try again</button></>}
      </p>
      {now?.any && now.lines[0].points.length > 0 && (
        <Timeline series={now.lines} names={["total", "self"]} range={now.range} step={now.step} type={type} theme={theme} label={`${name}, total and self,`} markers={now.markers}
          onSelect={(start, end) => go({ [prefix + "from"]: String(start), [prefix + "until"]: String(end) })} />
      )}
    </section>
  );
}
