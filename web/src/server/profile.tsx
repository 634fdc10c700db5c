// One selection with its timeline, flame graph and table: Explore has one, Compare two.
import { useLoaded } from "../api";
import { formatValue } from "../component";
import { Notice } from "../ui";
import { go, href, type Params, read } from "../url";
import { queryCommand } from "./command";
import { OverTime } from "./overtime";
import type { Marker } from "./marker";
import { deploys, drawStacks, type Drawn, fileOf, isFiltered, type Range, selectSeries, type Series, shapeOf } from "./querier";
import { Result } from "./result";
import type { Selection } from "./selection";
import { formatSelector, serviceOf } from "./selector";
import type { Exports, Tools } from "./shell";
import { rates, span, stepOf, Timeline } from "./timeline";

interface Profile {
  series: Series[];
  drawn: Drawn;
  range: Range;
  step: number;
  markers: Marker[];
  open(path: string[]): Promise<Drawn>;
}

export function useProfile({ type, selector, matchers, range }: Selection, params: Params, view: string) {
  const shape = shapeOf(params, view);
  const key = type && selector ? [type.ID, selector, range.start, range.end, JSON.stringify(shape)].join("\n") : null;
  return useLoaded<Profile>(key, async () => {
    const step = stepOf(range);
    const sides = [{ selector, range }];
    const [series, drawn, markers] = await Promise.all([selectSeries(type!.ID, selector, range, step), drawStacks(type!, sides, shape),
      deploys(serviceOf(matchers), range).catch(() => [])]);
    return { series: rates(series, type!, step), drawn, range, step, markers, open: (path) => drawStacks(type!, sides, shape, path) };
  });
}

// This address with fixed times, if a side has others.
function fixedLink(selections: Selection[]): string | undefined {
  if (selections.every(({ from, until }) => /^\d+$/.test(from) && /^\d+$/.test(until))) return undefined;
  const { view, params } = read();
  const times = selections.flatMap(({ prefix, range }) => [[prefix + "from", String(range.start)], [prefix + "until", String(range.end)]]);
  const queries = selections.filter(({ selector }) => selector).map(({ prefix, selector }) => [prefix + "query", selector]);
  return new URL(href(view, { ...params, ...Object.fromEntries([...times, ...queries]), refresh: "" }), location.href).href;
}

// What leaves the page: of one selection, or of two, the left one first.
export function exportsOf(selections: Selection[], params: Params, view: string): Exports | undefined {
  const [left, right] = selections.length > 1 ? selections : [undefined, selections[0]];
  const { type, selector } = right;
  if (!type || !selector) return undefined;
  const name = ({ matchers }: Selection) => matchers.map(({ value }) => value).join(" ");
  const title = `${left ? `${name(left)} \u2192 ` : ""}${name(right)} ${type.sampleType}`;
  return {
    title, command: queryCommand(params, view, right, left), link: fixedLink(selections),
    file: (format) => fileOf(type, selections, shapeOf(params, view), format, { title, normalize: !params.abs }),
  };
}

// Its total in words.
export function About({ selection: { type }, profile }: { selection: Selection; profile: Profile | null }) {
  if (!type || !profile) return null;
  return <>{type.sampleType} <b>{formatValue(profile.drawn.tree.total[0][0], type.sampleUnit)}</b> · {span(profile.range)}</>;
}

export function ProfileTimeline({ selection: { type, prefix }, profile, theme, label }: { selection: Selection; profile: Profile | null; theme: string; label?: string }) {
  if (!type || !profile?.series.length) return null;
  return (
    <Timeline series={profile.series} range={profile.range} step={profile.step} type={type} theme={theme} label={label} markers={profile.markers}
      onSelect={(start, end) => go({ [prefix + "from"]: String(start), [prefix + "until"]: String(end), z: "" })} />
  );
}

export function ProfileResult({ selection, profile, error, retry, params, theme, tools, label }: {
  selection: Selection;
  profile: Profile | null;
  error: string;
  retry(): void;
  params: Params;
  theme: string;
  tools: Tools;
  label?: string;
}) {
  const { prefix, matchers, selector, type } = selection;
  if (error) return <Notice title="This cannot be shown" actions={[["Try again", retry]]}>{error}</Notice>;
  if (profile && !profile.drawn.tree.total[0][0] && !isFiltered(shapeOf(params, tools.view))) {
    return (
      <Notice title="No samples in this range" actions={[["Last 24 hours", () => go({ [prefix + "from"]: "now-24h", [prefix + "until"]: "" })],
        ["Without labels", () => go({ [prefix + "query"]: formatSelector(matchers.filter((m) => m.name === "service_name")) })]]}>
        {selector} has nothing of {type?.name} between these times.
      </Notice>
    );
  }
  return profile ? (
    <Result drawn={profile.drawn} params={params} theme={theme} tools={tools} open={profile.open} label={label}
      overTime={(name) => <OverTime name={name} selection={selection} theme={theme} filtered={isFiltered(shapeOf(params, tools.view))} />} />
  ) : null;
}
