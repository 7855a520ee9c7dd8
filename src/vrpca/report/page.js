// Draws every figure of the page, in the colours of the reader's theme, and again when the theme changes.
const { charts, themes } = JSON.parse(document.getElementById("figures").textContent);
const darkness = window.matchMedia("(prefers-color-scheme: dark)");

async function draw() {
  const theme = darkness.matches ? "dark" : "light";
  const options = {
    config: themes[theme],
    renderer: "svg",
    actions: false,
    ast: true, // expressions are interpreted: the page's policy forbids to compile text into code
    tooltip: { theme },
  };
  document.documentElement.dataset.drawn = "no";
  for (const [name, spec] of Object.entries(charts)) {
    await vegaEmbed(document.getElementById(name), structuredClone(spec), options);
  }
  document.documentElement.dataset.drawn = theme;
}

darkness.addEventListener("change", draw);
draw();
