const button = document.getElementById("unfold");
const setAll = (open) => document.querySelectorAll("details").forEach((d) => { d.open = open; });
button.hidden = false;
button.addEventListener("click", () => {
  const open = button.textContent === "Unfold all";
  setAll(open);
  button.textContent = open ? "Fold all" : "Unfold all";
});
addEventListener("beforeprint", () => setAll(true));
