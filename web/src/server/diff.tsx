// Diff: two selections of one profile type in one picture.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { fromFlamebearer } from "../bearer";
import { type Flame, formatPercent, formatValue, signed, type Tree } from "../component";
import { useTheme } from "../panels";
import { Check, Notice } from "../ui";
import { go, type Params } from "../url";
import { diff } from "./querier";
import { Result } from "./result";
import { SelectorBar, useSelection } from "./selection";
import { Shell } from "./shell";

export function DiffPage({ params }: { params: Params }) {
  const { theme, nextTheme } = useTheme();
  const [tick, setTick] = useState(() => Date.now());
  const [matched, setMatched] = useState("");
  const [moved, setMoved] = useState(false);
  const flame = useRef<Flame | null>(null);
  const left = useSelection(params, tick, "left_");
  const right = useSelection(params, tick);
  const { type } = right;
  const [loaded, setLoaded] = useState<{ tree: Tree | null; error: string } | null>(null);
  const latest = useRef("");
  const sides = [left, right];
  const normalise = !params.abs;
  const key = type && left.selector && right.selector
    ? [type.ID, ...sides.flatMap((s) => [s.selector, s.range.start, s.range.end])].join("\n") : "";
  useEffect(() => {
    latest.current = key;
    if (!key || !type) return;
    diff(type.ID, left.selector, left.range, right.selector, right.range).then(
      (bearer) => {
        if (latest.current !== key) return;
        setLoaded({ tree: bearer && Number(bearer.total) > 0 ? fromFlamebearer(bearer, type.sampleType, type.sampleUnit, true) : null, error: "" });
      },
      (error: Error) => latest.current === key && setLoaded({ tree: null, error: error.message }),
    );
  }, [key]);
  const tree = useMemo(() => {
    const made = loaded?.tree;
    return made ? { ...made, data: { ...made.data, normalise: normalise ? 1 : 0 } } : null;
  }, [loaded, normalise]);

  const [l, r] = tree ? [tree.total[0][0], tree.total[1][0]] : [0, 0];
  const onRange = () => setTick(Date.now());
  return (
    <Shell page="diff" params={params} theme={theme} nextTheme={nextTheme} flame={flame} matched={matched} moved={moved}
      about={type && tree && <>
        {type.sampleType} <b>{formatValue(l, type.sampleUnit)} → {formatValue(r, type.sampleUnit)}</b>
        {l > 0 && ` (${signed(r - l, formatPercent(Math.abs(r - l) / l))})`}
      </>}
      bars={<>
        <SelectorBar selection={left} withType={false} title="Left" onRange={onRange} />
        <SelectorBar selection={right} title="Right" onRange={onRange} />
        <div class="bar">
          <Check label="Compare shares" on={normalise} set={(on) => go({ abs: on ? "" : "1" })} />
          <Check label="Blue instead of green" on={Boolean(params.cb)} set={(on) => go({ cb: on ? "1" : "" })} />
        </div>
      </>}>
      <main class={params.view ?? "both"}>
        {loaded?.error && <Notice title="This cannot be shown" actions={[["Try again", onRange]]}>{loaded.error}</Notice>}
        {loaded && !loaded.error && !loaded.tree && <Notice title="No samples on either side">Choose other labels or ranges.</Notice>}
        {tree && <Result whole={tree} params={params} theme={theme} flame={flame} onMatched={setMatched} onMoved={setMoved} />}
      </main>
    </Shell>
  );
}
