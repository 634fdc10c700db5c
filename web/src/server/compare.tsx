// Comparison: two selections side by side, each with its own range; they are zoomed and searched together.
import { useState } from "preact/hooks";
import { Overview } from "./overview";
import { About, exportsOf, ProfileResult, ProfileTimeline, useProfile } from "./profile";
import { Nothing, Refresh, type Selection, SelectorBar, useSelection, useTick } from "./selection";
import { type PageProps, Shell, type Tools, useTools } from "./shell";

function Half({ title, selection, props, tools, again, onFocus }: {
  title: string;
  selection: Selection;
  props: PageProps;
  tools: Tools;
  again(): void;
  onFocus(): void;
}) {
  const { data: profile, error, retry } = useProfile(selection, props.params, tools.view);
  const { params, theme } = props;
  return (
    <section class="half" aria-label={title} onFocusIn={onFocus} onPointerEnter={onFocus}>
      <SelectorBar selection={selection} withType={false} title={title} onRange={again} />
      <p class="about"><About selection={selection} profile={profile} /></p>
      <ProfileTimeline selection={selection} profile={profile} theme={theme} label={title} />
      <div class={"result " + tools.view}>
        {selection.empty ? <Nothing /> : <ProfileResult selection={selection} profile={profile} error={error || selection.error} retry={selection.error ? again : retry}
          params={params} theme={theme} tools={tools} label={"Flame graph, " + title.toLowerCase()} />}
      </div>
    </section>
  );
}

export function ComparePage(props: PageProps) {
  const { params } = props;
  const { tick, again } = useTick(params);
  const right = useSelection(params, tick);
  const left = useSelection(params, tick, "left_", right.selector);
  const tools: [Tools, Tools] = [useTools(params, { usual: "flame" }), useTools(params, { usual: "flame" })];
  // Keys are for the side that was looked at last.
  const [side, setSide] = useState(1);
  const sides = [{ ...left, type: right.type }, right];
  return (
    <Shell page="compare" props={props} tools={tools[side]} exports={exportsOf([sides[side]], params, tools[side].view)}
      bars={<>
        <SelectorBar selection={right} onlyType onRange={again}><Refresh params={params} again={again} /></SelectorBar>
        {!right.empty && <Overview left={sides[0]} right={right} tick={tick} theme={props.theme} />}
      </>}>
      <main class="compare">
        <Half title="Left" selection={sides[0]} props={props} tools={tools[0]} again={again} onFocus={() => setSide(0)} />
        <Half title="Right" selection={right} props={props} tools={tools[1]} again={again} onFocus={() => setSide(1)} />
      </main>
    </Shell>
  );
}
