// One selection with its timeline, flame graph and table: Explore has one, Compare two.
import { useLoaded } from "../api";
import { formatValue, type Tree } from "../component";
import { Notice } from "../ui";
import { go, type Params } from "../url";
import { mergeTree, type Range, selectSeries, type Series } from "./querier";
import { Result } from "./result";
import type { Selection } from "./selection";
import { formatSelector } from "./selector";
import type { Tools } from "./shell";
import { rates, span, stepOf, Timeline } from "./timeline";

interface Profile {
  series: Series[];
  tree: Tree | null;
  range: Range;
  step: number;
  open(path: string[]): Promise<Tree | null>;
}

export function useProfile({ type, selector, range }: Selection) {
  const key = type && selector ? [type.ID, selector, range.start, range.end].join("\n") : null;
  return useLoaded<Profile>(key, async () => {
    const step = stepOf(range);
    const [series, tree] = await Promise.all([selectSeries(type!.ID, selector, range, step), mergeTree(type!, selector, range)]);
    return { series: rates(series, type!, step), tree, range, step, open: (path) => mergeTree(type!, selector, range, path) };
  });
}

// Its total in words.
export function About({ selection: { type }, profile }: { selection: Selection; profile: Profile | null }) {
  if (!type || !profile) return null;
  return <>{type.sampleType} <b>{formatValue(profile.tree?.total[0][0] ?? 0, type.sampleUnit)}</b> · {span(profile.range)}</>;
}

export function ProfileTimeline({ selection: { type, prefix }, profile, theme, label }: { selection: Selection; profile: Profile | null; theme: string; label?: string }) {
  if (!type || !profile?.series.length) return null;
  return (
    <Timeline series={profile.series} range={profile.range} step={profile.step} type={type} theme={theme} label={label}
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
  if (profile && !profile.tree) {
    return (
      <Notice title="No samples in this range" actions={[["Last 24 hours", () => go({ [prefix + "from"]: "now-24h", [prefix + "until"]: "" })],
        ["Without labels", () => go({ [prefix + "query"]: formatSelector(matchers.filter((m) => m.name === "service_name")) })]]}>
        {selector} has nothing of {type?.name} between these times.
      </Notice>
    );
  }
  return profile?.tree ? <Result whole={profile.tree} params={params} theme={theme} tools={tools} open={profile.open} label={label} /> : null;
}
