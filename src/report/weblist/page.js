// The page works without this: it only opens and closes all lines at once.
document.getElementById("all").onclick = () => {
  const lines = [...document.querySelectorAll("details")];
  const open = lines.some((line) => !line.open);
  lines.forEach((line) => (line.open = open));
};
