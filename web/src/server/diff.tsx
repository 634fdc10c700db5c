// Diff: two selections of one profile type in one picture.
import { useMemo } from "preact/hooks";
import { useLoaded } from "../api";
import { formatPercent, formatValue, signed } from "../component";
import { Check, Notice } from "../ui";
import { go } from "../url";
import { Overview } from "./overview";
import { exportsOf } from "./profile";
import { drawStacks, isFiltered, shapeOf } from "./querier";
import { Result } from "./result";
import { Nothing, Refresh, SelectorBar, useSelection, useTick } from "./selection";
import { type PageProps, Shell, useTools } from "./shell";

export function DiffPage(props: PageProps) {
  const { params, theme } = props;
  const { tick, again } = useTick(params);
  const tools = useTools(params, { diff: true });
  const right = useSelection(params, tick);
  const left = useSelection(params, tick, "left_", right.selector);
  const type = right.type ?? left.type;
  const normalize = !params.abs;
  const shape = shapeOf(params, tools.view);
  const key = type && left.selector && right.selector
    ? [type.ID, JSON.stringify(shape), ...[left, right].flatMap((s) => [s.selector, s.range.start, s.range.end])].join("\n") : null;
  const { data: loaded, error, retry } = useLoaded(key, async () => {
    const sides = [left, right];
    return { drawn: await drawStacks(type!, sides, shape), open: (path: string[]) => drawStacks(type!, sides, shape, path) };
  });
  const tree = useMemo(() => {
    const made = loaded?.drawn.tree;
    return made ? { ...made, data: { ...made.data, normalize: normalize ? 1 : 0 } } : null;
  }, [loaded, normalize]);

  const [l, r] = tree ? [tree.total[0][0], tree.total[1][0]] : [0, 0];
  return (
    <Shell page="diff" props={props} tools={tools} exports={exportsOf([{ ...left, type }, { ...right, type }], params, tools.view)}
      about={type && tree && <>
        {type.sampleType} <b>{formatValue(l, type.sampleUnit)} → {formatValue(r, type.sampleUnit)}</b>
        {l > 0 && ` (${signed(r - l, formatPercent(Math.abs(r - l) / l))})`}
      </>}
      bars={<>
        <SelectorBar selection={left} withType={false} title="Left" onRange={again} />
        <SelectorBar selection={right} title="Right" onRange={again}><Refresh params={params} again={again} /></SelectorBar>
        {!(right.empty && left.empty) && <Overview left={left} right={right} tick={tick} theme={theme} />}
        <div class="bar">
          <Check label="Compare shares" on={normalize} set={(on) => go({ abs: on ? "" : "1" })} />
          <Check label="Blue instead of green" on={Boolean(params.cb)} set={(on) => go({ cb: on ? "1" : "" })} />
        </div>
      </>}>
      <main class={tools.view}>
        {right.empty && left.empty && <Nothing />}
        {(error || right.error) && <Notice title="This cannot be shown" actions={[["Try again", right.error ? again : retry]]}>{error || right.error}</Notice>}
        {tree && !error && (l + r === 0 && !isFiltered(shape) ? <Notice title="No samples on either side">Choose other labels or ranges.</Notice>
          : <Result drawn={{ tree, notes: [...loaded!.drawn.notes, ...(l && r ? [] : [`${l ? "Right" : "Left"} has no samples in its range, so everything differs`])] }} params={params} theme={theme} tools={tools} open={loaded!.open} />)}
      </main>
    </Shell>
  );
}
