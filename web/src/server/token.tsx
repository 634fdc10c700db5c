// Where the server asks for credentials: a token is entered once and kept as long as the tab is.
import { useState } from "preact/hooks";
import { tryToken } from "../api";

export function TokenForm() {
  const [problem, setProblem] = useState("");
  return (
    <main class="enter">
      <form onSubmit={async (event) => {
        event.preventDefault();
        const field = event.currentTarget.elements.namedItem("token") as HTMLInputElement;
        const why = await tryToken(field.value.trim());
        if (why) setProblem(why);
        else location.reload();
      }}>
        <h1>kiln</h1>
        <p>This server asks for a token. It is kept in this tab and sent to this server only.</p>
        <label><span>Token</span><input name="token" type="password" autocomplete="current-password" autoFocus required /></label>
        <p class="problem" role="alert">{problem}</p>
        <button type="submit">Continue</button>
      </form>
    </main>
  );
}
