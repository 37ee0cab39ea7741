// The colours: those of the system, or the user's choice of light or dark.

const key = "segno-theme";
const next = { auto: "dark", dark: "light", light: "auto" };
const signs = { auto: "\u25d0", dark: "\u25cf", light: "\u25cb" };

// bindTheme lets a button change the colours and keeps the choice.
export function bindTheme(button) {
  const apply = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = signs[theme];
    button.setAttribute("aria-label", `Colours: ${theme === "auto" ? "as the system" : theme}`);
    button.title = button.getAttribute("aria-label");
  };
  let theme = localStorage.getItem(key) in next ? localStorage.getItem(key) : "auto";
  apply(theme);
  button.addEventListener("click", () => {
    theme = next[theme];
    localStorage.setItem(key, theme);
    apply(theme);
  });
}
