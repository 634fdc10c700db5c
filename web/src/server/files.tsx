// Files: a profile, or two to compare, from this machine. The server reads them and keeps nothing; they stay
// in this tab, so that a reload shows them again.
import { useEffect, useMemo, useState } from "preact/hooks";
import { json, send, useLoaded } from "../api";
import { decode, type FlameData, formatPercent, formatValue, signed } from "../component";
import { Check, Notice } from "../ui";
import { go } from "../url";
import { keep, type Kept, recall } from "./keep";
import { Result } from "./result";
import { type PageProps, Shell, useTools } from "./shell";

interface Answer {
  types: [type: string, unit: string][];
  type: number;
  events: [number, number][];
  flame: FlameData;
}

async function read(files: (Kept | null)[], type: string, path?: string[]) {
  const form = new FormData();
  const [base, file] = files;
  form.append("profile", file!.content);
  if (base) form.append("base", base.content);
  if (type) form.append("type", type);
  for (const name of path ?? []) form.append("path", name);
  const { types, type: index, events, flame } = await send("api/v1/flame", json<Answer>, form);
  flame.events = events.length ? events : null;
  return { types, index, tree: decode(flame) };
}

function Chooser({ title, file, choose, clear }: { title: string; file: Kept | null; choose(file: File): void; clear?(): void }) {
  const [over, setOver] = useState(false);
  return (
    <label class={"drop" + (over ? " over" : "")} onDragOver={(event) => {
      event.preventDefault();
      setOver(true);
    }} onDragLeave={() => setOver(false)} onDrop={(event) => {
      event.preventDefault();
      setOver(false);
      const dropped = event.dataTransfer?.files[0];
      if (dropped) choose(dropped);
    }}>
      <b>{title}</b>
      <span class="file">{file ? `${file.name} · ${formatValue(file.content.size, "bytes")}` : "Drop a file here, or choose one"}</span>
      <input type="file" aria-label={title} onChange={(event) => {
        const chosen = event.currentTarget.files?.[0];
        if (chosen) choose(chosen);
      }} />
      {file && clear && <button class="remove" aria-label={"Remove " + file.name} onClick={(event) => {
        event.preventDefault();
        clear();
      }}>×</button>}
    </label>
  );
}

export function FilesPage(props: PageProps) {
  const { params, theme } = props;
  const tools = useTools(params);
  const [files, setFiles] = useState<(Kept | null)[]>([null, null]);
  const ids = [params.base_file ?? "", params.file ?? ""];
  useEffect(() => void Promise.all(ids.map((id) => (id ? recall(id) : null))).then(setFiles), [ids.join()]);
  const choose = (key: string) => async (file: File) => go({ [key]: await keep(file), z: "", type: "" });
  const [base, file] = files;
  const key = file && file.id === params.file && (base?.id ?? "") === ids[0] ? [file.id, ids[0], params.type ?? ""].join(" ") : null;
  const { data: loaded, error, retry } = useLoaded(key, async () => ({ ...await read(files, params.type ?? ""), open: async (path: string[]) => (await read(files, params.type ?? "", path)).tree }));
  const normalise = !params.abs;
  const tree = useMemo(() => loaded && { ...loaded.tree, data: { ...loaded.tree.data, normalise: normalise ? 1 : 0 } }, [loaded, normalise]);
  const shown = key && tree && tree.total.some((column) => column[0]) ? tree : null;
  const [type, unit] = loaded?.types[loaded.index] ?? ["", ""];
  const [l, r] = shown ? [shown.total[0][0], shown.total[1]?.[0] ?? 0] : [0, 0];
  const gone = params.file && !file;
  return (
    <Shell page="files" props={props} tools={shown ? tools : undefined}
      about={shown && (shown.data.diff
        ? <>{type} <b>{formatValue(l, unit)} → {formatValue(r, unit)}</b>{l > 0 && ` (${signed(r - l, formatPercent(Math.abs(r - l) / l))})`}</>
        : <>{type} <b>{formatValue(l, unit)}</b></>)}
      bars={
        <div class="bar selection files">
          <Chooser title="Profile" file={file} choose={choose("file")} clear={() => go({ file: "", z: "" })} />
          <Chooser title="Compare with" file={base} choose={choose("base_file")} clear={() => go({ base_file: "", z: "" })} />
          {loaded && loaded.types.length > 1 && (
            <select aria-label="Sample type" value={loaded.types[loaded.index][0]} onChange={(event) => go({ type: event.currentTarget.value, z: "" })}>
              {loaded.types.map(([name]) => <option key={name} value={name}>{name}</option>)}
            </select>
          )}
          {shown && Boolean(shown.data.diff) && <>
            <Check label="Compare shares" on={normalise} set={(on) => go({ abs: on ? "" : "1" })} />
            <Check label="Blue instead of green" on={Boolean(params.cb)} set={(on) => go({ cb: on ? "1" : "" })} />
          </>}
        </div>
      }>
      <main class={shown ? tools.view : ""}>
        {error ? <Notice title="This cannot be read" actions={[["Try again", retry]]}>{error}</Notice>
          : shown ? <Result whole={shown} params={params} theme={theme} tools={tools} open={loaded!.open} />
          : loaded && key ? <Notice title="No samples">The profile has no value above zero of this type.</Notice>
          : <Notice title={gone ? "Choose the file again" : "A profile from this machine"}>
            {gone ? "It was chosen in another tab or browser; files are not kept on the server."
              : "Any format that kiln reads: pprof, perf script, folded stacks, speedscope, jemalloc. With a second file: what changed. The server keeps neither."}
          </Notice>}
      </main>
    </Shell>
  );
}
