// Checks that print TAP; name, if there is one, begins each line.
export function checks(name) {
  let count = 0;
  let failed = 0;
  function check(ok, what, detail) {
    count++;
    if (!ok) failed++;
    const subject = name ? `${name}: ${what}` : what;
    console.log(`${ok ? "ok" : "not ok"} ${count} - ${subject}${ok || detail === undefined ? "" : " # " + String(detail).slice(0, 900)}`);
  }
  return {
    check,
    equal: (got, wanted, what) => check(got === wanted, what, `got ${JSON.stringify(got)}, wanted ${JSON.stringify(wanted)}`),
    // Prints the plan and ends the process.
    finish() {
      console.log("1.." + count);
      process.exit(failed ? 1 : 0);
    },
  };
}
