// Choices: view, colouring, measure, theme.

// Radio buttons that look like one switch; the arrow keys come with them.
function choice(root, legendText, key, options, chosenNow, choose) {
  root.replaceChildren(h("fieldset", { class: "choice" }, h("legend", null, legendText), options.map(([value, text]) => h("label", null,
    h("input", { type: "radio", name: key, value, checked: value === chosenNow, onchange: () => choose(value) }), h("span", null, text)))));
}

const check = (key, value) => document.querySelectorAll(`input[name=${key}]`).forEach((input) => {
  input.checked = input.value === String(value);
});

function buildControls() {
  choice(byId("colour"), "Colour", "colour", COLOURS.map((each) => [each, each[0].toUpperCase() + each.slice(1)]), state.colour, (value) => set({ colour: value }));
  choice(byId("measure"), "Size", "measure", [["cpu", "CPU"], ["memory", "Memory"]], state.measure, (value) => set({ measure: value }));
  if (D.views.length > 1) {
    choice(byId("views"), "State", "views", [["0", "Before"], [String(LAST), "After"]], String(state.at), (value) => set({ at: Number(value) }));
  } else byId("views").hidden = true;
  on(["colour", "measure", "at"], () => {
    check("colour", state.colour);
    check("measure", state.measure);
    check("views", state.at);
  });
  buildTheme();
  new ResizeObserver(headerHeight).observe(document.querySelector(".top"));
}

// A low header is sticky, and the player then stops below it.
function headerHeight([entry]) {
  const height = Math.round(entry.borderBoxSize[0].blockSize);
  document.body.classList.toggle("tall", height > 110);
  document.documentElement.style.setProperty("--top", `${height > 110 ? 0 : height}px`);
}

// The theme is stored if the browser permits it. A file opened from a disk may have no storage.
function buildTheme() {
  const kept = () => {
    try {
      return localStorage.getItem("kubestow-theme");
    } catch {
      return null;
    }
  };
  const apply = (theme) => {
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("kubestow-theme", theme);
    } catch {
      // it then holds for this visit only
    }
  };
  const first = ["light", "dark"].includes(kept()) ? kept() : "auto";
  document.documentElement.dataset.theme = first;
  choice(byId("theme"), "Theme", "theme", [["auto", "Auto"], ["light", "Light"], ["dark", "Dark"]], first, apply);
}
