// The player of the waves: the map shows the state after the chosen wave, with a list of its steps. Announcements come from the page's
// only live region.

const PAUSE = 1600; // milliseconds for each wave
let playing = 0;

// Drawn, because many fonts lack the characters.
const GLYPHS = {
  first: "M3 2h2v10H3zM12 2v10L5 7z", previous: "M9 2l1.4 1.4L6.8 7l3.6 3.6L9 12 4 7z", play: "M4 2l8 5-8 5z",
  next: "M5 2L3.6 3.4 7.2 7l-3.6 3.6L5 12l5-5z", last: "M9 2h2v10H9zM2 2v10l7-5z", pause: "M3 2h3v10H3zM8 2h3v10H8z",
};

const drawn = (path) => svg("svg", { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" }, svg("path", { d: path }));

const went = (steps) => {
  const evicted = steps.filter((step) => step.evict).length;
  const placed = steps.filter((step) => step.from < 0 && step.to >= 0).length;
  const gone = steps.filter((step) => step.to < 0 && !step.evict).length;
  const moved = steps.length - evicted - placed - gone;
  const parts = [[moved, "move"], [placed, D.kind === "RebalancePlan" ? "binding" : "placement"], [evicted, ROLLS ? "removal" : "eviction"], [gone, "removal"]].filter(([count]) => count);
  return parts.length ? parts.map(([count, word]) => plural(count, word)).join(", ") : "no steps";
};

function stepRows(steps) {
  const node = (n) => (n < 0 ? h("span", { class: "dim" }, "–") : goTo(n));
  const kind = (step) => [step.evict && badge("state3", STATES[3]), step.stopover && badge("plain", "stopover")].filter(Boolean);
  return steps.map((step) => [[name(stepName(step)), kind(step).map((each) => [" ", each])], node(step.from), node(step.to), name(step.reason || "")]);
}

const stepTable = (wave) => (wave.steps.length ? more(wave.steps, 40, "steps",
  (steps) => table(`Steps of wave ${wave.wave}`, ["Pod", "From", "To", "Why"], stepRows(steps))) : empty("Nothing moves in this wave."));

function buildPlayer() {
  const root = byId("player");
  if (!W) {
    root.remove();
    byId("steps").remove();
    return;
  }
  const go = (at) => () => {
    stop();
    set({ at: Math.max(0, Math.min(LAST, typeof at === "function" ? at() : at)) });
  };
  const control = (id, glyph, text, act) => h("button", { id, class: "icon", "aria-label": text, title: text, onclick: act }, drawn(glyph));
  const slider = h("input", { type: "range", id: "slider", min: 0, max: LAST, step: 1, value: state.at, "aria-label": "Wave", oninput: () => go(Number(slider.value))() });
  root.append(h("div", { class: "buttons" },
    control("first", GLYPHS.first, "Before the first wave", go(0)),
    control("previous", GLYPHS.previous, "Previous wave", go(() => state.at - 1)),
    control("play", GLYPHS.play, "Play the waves", () => (playing ? stop() : play())),
    control("next", GLYPHS.next, "Next wave", go(() => state.at + 1)),
    control("last", GLYPHS.last, "After the last wave", go(LAST))), slider, h("output", { id: "wave", for: "slider", "aria-live": "off" }));
  on(["at"], showWave);
  showWave();
}

function waveText() {
  if (state.at === 0) return `Before the first of ${plural(W, "wave")}`;
  const wave = D.waves[state.at - 1];
  return `Wave ${wave.wave} of ${W}: ${went(wave.steps)}`;
}

function showWave() {
  const text = waveText();
  byId("slider").value = state.at;
  byId("slider").setAttribute("aria-valuetext", text);
  byId("wave").textContent = text;
  if (started) say(text);
  // Disabled buttons keep the focus of the user who pressed them.
  for (const [id, end] of [["first", 0], ["previous", 0], ["next", LAST], ["last", LAST]]) byId(id).setAttribute("aria-disabled", String(state.at === end));
  byId("steps").replaceChildren(state.at === 0 ? empty("Nothing has moved yet.") : stepTable(D.waves[state.at - 1]));
}

function play() {
  if (state.at === LAST) set({ at: 0 });
  playing = setInterval(() => {
    set({ at: Math.min(LAST, state.at + 1) });
    if (state.at === LAST) stop();
  }, PAUSE);
  showPlaying(GLYPHS.pause, "Pause");
}

function stop() {
  clearInterval(playing);
  playing = 0;
  showPlaying(GLYPHS.play, "Play the waves");
}

function showPlaying(glyph, text) {
  const button = byId("play");
  button.firstChild.replaceWith(drawn(glyph));
  button.setAttribute("aria-label", text);
  button.title = text;
}

// All waves as a list, for reading and printing.
function buildWaves() {
  const root = byId("waves");
  if (!W) {
    root.closest("section").hidden = true;
    return;
  }
  const all = D.waves.map((wave, i) => {
    const show = () => {
      set({ at: i + 1 });
      goToHeading("map");
    };
    return later([h("strong", null, `Wave ${wave.wave}`), h("span", { class: "dim" }, ` ${went(wave.steps)}`)], () => h("div", null,
      h("button", { class: "link screen", onclick: show }, `Show the map after wave ${wave.wave}`), stepTable(wave)));
  });
  root.append(...all);
}
