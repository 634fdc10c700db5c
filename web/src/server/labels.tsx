// Labels: a profile type over time, one line for each value of a label, and what each amounts to.
import { useMemo } from "preact/hooks";
import { useLoaded } from "../api";
import { type Column, formatPercent, signed } from "../component";
import { orderOf, Rows } from "../table";
import { Choice, link, Notice } from "../ui";
import { go } from "../url";
import { labelNames, labelValues, type ProfileType, type Range, selectSeries, type Series } from "./querier";
import { Nothing, Refresh, SelectorBar, useSelection, useTick } from "./selection";
import { formatSelector, type Matcher, withLabel } from "./selector";
import { type PageProps, Shell } from "./shell";
import { formatRate, rates, span, sparkline, stepOf, Timeline } from "./timeline";

const DRAWN = 10; // lines at most: as many colours can be told apart
const COUNTED = 24; // labels whose values are counted

interface Group {
  value: string;
  series: Series;
  sum: number;
  mean: number;
  max: number;
  trend: number; // of the second half of the range against the first; infinite where that has none
}

// Largest first.
function groupsOf(series: Series[], by: string, type: ProfileType, step: number, { start, end }: Range): Group[] {
  const mean = (points: Series["points"]) => points.reduce((sum, { value }) => sum + value, 0) / (points.length || 1);
  const middle = (start + end) / 2;
  return rates(series, type, step).map((one, i) => {
    const add = (points: Series["points"]) => points.reduce((sum, { value }) => sum + value, 0);
    const max = one.points.reduce((most, { value }) => Math.max(most, value), 0);
    const value = one.labels.find((l) => l.name === by)?.value ?? "";
    const [before, after] = [true, false].map((first) => mean(one.points.filter(({ timestamp }) => first === Number(timestamp) <= middle)));
    return { value, series: one, sum: add(series[i].points), mean: mean(one.points), max, trend: after / before - 1 };
  }).sort((a, b) => b.sum - a.sum);
}

const trendText = (trend: number) => (Number.isFinite(trend) ? signed(trend, formatPercent(Math.abs(trend))) : trend > 0 ? "new" : "");
const shown = (value: string) => value || "(none)";

// Every label with the number of its values.
async function countLabels(selector: string, range: Range) {
  const names = await labelNames([selector], range);
  const counts = await Promise.all(names.slice(0, COUNTED).map((name) => labelValues(name, [selector], range)));
  return names.map((name, i) => ({ name, count: counts[i]?.length ?? 0 }));
}

// The colour of its line.
function dot(i: number): HTMLElement | null {
  if (i >= DRAWN) return null;
  const mark = document.createElement("i");
  mark.className = "dot";
  mark.style.background = `var(--s${i})`;
  return mark;
}

// Which of the labels to begin with: one that tells something apart.
function usual(labels: { name: string; count: number }[], matchers: Matcher[]): string {
  const fixed = new Set(matchers.filter((m) => m.op === "=").map((m) => m.name));
  const telling = labels.filter(({ name, count }) => count > 1 && !fixed.has(name)).sort((a, b) => a.count - b.count);
  return (telling[0] ?? labels.find(({ name }) => name !== "service_name") ?? labels[0])?.name ?? "";
}

export function LabelsPage(props: PageProps) {
  const { params, theme } = props;
  const { tick, again } = useTick(params);
  const selection = useSelection(params, tick);
  const { range, selector, type, matchers, empty } = selection;
  const asked = selector ? [selector, range.start, range.end] : null;
  const names = useLoaded(asked && asked.join("\n"), () => countLabels(selector, range));
  const by = params.by || (names.data ? usual(names.data, matchers) : "");
  const key = asked && type && by ? [type.ID, by, ...asked].join("\n") : null;
  const { data: loaded, error: failed, retry } = useLoaded(key, async () => {
    const step = stepOf(range);
    return { groups: groupsOf(await selectSeries(type!.ID, selector, range, step, [by]), by, type!, step, range), by, range, step, type: type! };
  });

  const error = failed || names.error || selection.error;
  const groups = loaded?.groups ?? [];
  const picked = groups.findIndex(({ value }) => params.only === shown(value));
  const drawn = useMemo(() => {
    const list = groups.slice(0, DRAWN).map(({ series }, colour) => ({ series, colour }));
    const one = groups[picked];
    return one ? [{ series: one.series, colour: picked % DRAWN }] : list;
  }, [loaded, picked]);
  const labels = useMemo(() => drawn.map(({ series }) => shown(series.labels.find((l) => l.name === by)?.value ?? "")), [drawn]);
  const lines = useMemo(() => drawn.map(({ series }) => series), [drawn]);

  // What a value is compared with: the others together, or one of them.
  const base = groups.some(({ value }) => shown(value) === params.base) ? params.base : "";
  const columns = useMemo((): Column[] => {
    if (!loaded) return [];
    const profile = loaded.type;
    const all = groups.reduce((sum, g) => sum + g.sum, 0) || 1;
    const of = (value: string) => formatSelector(withLabel(matchers, by, "=", value));
    const against = (value: string) => {
      const chosen = groups.find((g) => shown(g.value) === base);
      const left = chosen && chosen.value !== value ? of(chosen.value) : formatSelector(withLabel(matchers, by, "!=", value));
      return { query: of(value), left_query: left, left_from: params.from ?? "", left_until: params.until ?? "", only: "" };
    };
    const rate = (which: "mean" | "max", label: string): Column =>
      ({ key: which, label, value: (i) => groups[i][which], text: (i) => formatRate(groups[i][which], profile) });
    return [
      { key: "name", label: loaded.by, value: (i) => groups[i].value, text: (i) => shown(groups[i].value), node: dot },
      { key: "share", label: "Share", value: (i) => groups[i].sum, text: (i) => formatPercent(groups[i].sum / all), share: (i) => groups[i].sum / all },
      rate("mean", "Mean"),
      rate("max", "Max"),
      { key: "trend", label: "Trend", value: (i) => groups[i].trend, text: () => "", node: (i) => {
        const { series, trend } = groups[i];
        const box = document.createElement("span");
        box.title = "The second half of the range against the first";
        const said = document.createElement("span");
        said.textContent = trendText(trend);
        box.append(sparkline(series.points, loaded.range, 64), said);
        return box;
      } },
      { key: "act", label: "", value: (i) => groups[i].sum, text: () => "", node: (i) => {
        const box = document.createElement("span");
        const { value } = groups[i];
        const here = { query: of(value), only: "", by: "" };
        const rest = base && base !== shown(value) ? base : "the others";
        box.append(link("Explore", `Flame graph of ${loaded.by} = ${shown(value)}`, "explore", here),
          link("Filter", "Only this value, here", "tags", here),
          link("Compare", "Side by side with " + rest, "compare", against(value)),
          link("Diff", "Compare with " + rest, "diff", against(value)));
        return box;
      } },
    ];
  }, [loaded, base, params.from, params.until]);
  const rows = useMemo(() => groups.map((_, i) => i), [loaded]);

  return (
    <Shell page="tags" props={props}
      about={loaded && <>{loaded.type.sampleType} by <b>{loaded.by}</b> · {span(loaded.range)}</>}
      bars={<>
        <SelectorBar selection={selection} onRange={again}><Refresh params={params} again={again} /></SelectorBar>
        <div class="bar pills" role="group" aria-label="Label">
          {names.data?.map(({ name, count }) => (
            <button key={name} aria-pressed={name === by} onClick={() => go({ by: name, only: "", base: "" })}>{name} {count > 0 && <small>{count}</small>}</button>
          ))}
        </div>
        {loaded && groups.length > 0 && (
          <Timeline series={lines} names={labels} colours={drawn.map(({ colour }) => colour)} range={loaded.range} step={loaded.step}
            type={loaded.type} theme={theme} onSelect={(start, end) => go({ from: String(start), until: String(end) })} />
        )}
        {loaded && groups.length > 1 && (
          <div class="bar">
            <Choice label="Compare and diff with" value={base} set={(value) => go({ base: value })}
              options={[["", "the others"], ...groups.map(({ value }): [string, string] => [shown(value), shown(value)])]} />
            <span class="fill" />
            {picked >= 0 ? <button onClick={() => go({ only: "" })}>All lines</button>
              : groups.length > DRAWN && <span class="faint">lines of the {DRAWN} largest of {groups.length}</span>}
          </div>
        )}
      </>}>
      <main class="list">
        {empty && <Nothing />}
        {error && <Notice title="This cannot be shown" actions={[["Try again", failed ? retry : names.error ? names.retry : again]]}>{error}</Notice>}
        {loaded && !error && !empty && (groups.length === 0
          ? <Notice title="Nothing in this range" actions={[["Last 24 hours", () => go({ from: "now-24h", until: "" })]]}>
            {selector} has nothing of {type?.name} between these times.
          </Notice>
          : <Rows label={"Values of " + loaded.by} columns={columns} rows={rows} order={orderOf(columns, params.o, "-share")} onOrder={(o) => go({ o }, undefined, true)} picked={picked}
            onPick={(i) => go({ only: i === picked ? "" : shown(groups[i].value) }, undefined, true)}
            onOpen={(i) => go({ query: formatSelector(withLabel(matchers, by, "=", groups[i].value)), only: "", by: "" }, "explore")} />)}
      </main>
    </Shell>
  );
}
