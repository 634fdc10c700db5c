// Explore: one service, one profile type, a range of time; its timeline, flame graph and table.
import { About, exportsOf, ProfileResult, ProfileTimeline, useProfile } from "./profile";
import { Nothing, Refresh, SelectorBar, useSelection, useTick } from "./selection";
import { type PageProps, Shell, useTools } from "./shell";

export function Explore(props: PageProps) {
  const { params, theme } = props;
  const { tick, again } = useTick(params);
  const tools = useTools(params);
  const selection = useSelection(params, tick);
  const { data: profile, error, retry } = useProfile(selection, params, tools.view);
  return (
    <Shell page="explore" props={props} tools={tools} exports={exportsOf([selection], params, tools.view)} about={<About selection={selection} profile={profile} />}
      bars={<>
        <SelectorBar selection={selection} onRange={again}><Refresh params={params} again={again} /></SelectorBar>
        <ProfileTimeline selection={selection} profile={profile} theme={theme} />
      </>}>
      <main class={tools.view}>
        {selection.empty ? <Nothing />
          : <ProfileResult selection={selection} profile={profile} error={error || selection.error} retry={selection.error ? again : retry} params={params} theme={theme} tools={tools} />}
      </main>
    </Shell>
  );
}
