// Light or dark: as the system has it, unless it was chosen here. It runs before anything is drawn.

(() => {
  const dark = matchMedia("(prefers-color-scheme:dark)"), root = document.documentElement;
  const kept = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const shown = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  if (["light", "dark"].includes(kept())) root.dataset.theme = kept();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const name = () => {
      const other = shown() === "dark" ? "Light" : "Dark";
      button.textContent = other;
      button.setAttribute("aria-label", `${other} colours`);
    };
    button.addEventListener("click", () => {
      root.dataset.theme = shown() === "dark" ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch { /* it lasts as long as the page */ }
      name();
    });
    dark.addEventListener("change", name);
    name();
  });
})();
