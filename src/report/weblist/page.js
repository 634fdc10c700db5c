// Optional: opens and closes all lines at once.
document.getElementById("all").onclick = () => {
  const lines = [...document.querySelectorAll("details")];
  const open = lines.some((line) => !line.open);
  lines.forEach((line) => (line.open = open));
};
