// Search over nodes, workloads and pods. Matches are marked on the map and listed; Enter opens the first.

const SHOWN = 12;

function find(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (text) => {
    const low = text.toLowerCase();
    return words.every((word) => low.includes(word));
  };
  const among = (texts) => {
    const found = [];
    for (let i = 0; i < texts.length; i += 1) if (fits(texts[i])) found.push(i);
    return found;
  };
  return { nodes: among(D.nodes.name), workloads: among(D.workloads.map((each) => each.name)), pods: among(P.name) };
}

function runSearch() {
  const query = byId("search").value.trim();
  const box = byId("found");
  if (!query) return clearSearch();
  const found = find(query);
  const total = found.nodes.length + found.workloads.length + found.pods.length;
  const groups = [["Nodes", found.nodes, nodeHit], ["Workloads", found.workloads, workloadHit], ["Pods", found.pods, podHit]];
  box.replaceChildren(...groups.filter(([, list]) => list.length).map(([title, list, draw]) => h("section", null,
    h("h2", null, `${title} `, h("span", { class: "dim" }, list.length > SHOWN ? `${number(list.length)}, the first ${SHOWN}` : number(list.length))),
    h("ul", null, list.slice(0, SHOWN).map((i) => h("li", null, draw(i)))))));
  if (!total) box.append(empty(grouped ? "Nothing matches. Pods are aggregated here; only changed pods are listed by name." : "Nothing matches."));
  box.hidden = false;
  const text = total ? `${plural(found.nodes.length, "node")}, ${plural(found.workloads.length, "workload")}, ${pods(found.pods.length)} found` : "Nothing matches";
  say(text);
  set({ mark: total ? mark(`search ${query}`, `“${query}”`, found) : null });
}

const chosen = (act) => () => {
  hideFound();
  act();
};

const hitButton = (text, note, act) => h("button", { onclick: chosen(act) }, name(text), note && h("span", { class: "dim" }, ` ${note}`));

const nodeHit = (n) => hitButton(D.nodes.name[n], zoneName(n), () => {
  reveal(n);
  set({ node: n, pod: -1 });
});

const workloadHit = (w) => hitButton(workloadName(w), pods(D.workloads[w].pods), () => {
  set({ mark: markOf(w) });
  goToHeading("map");
});

const podHit = (p) => {
  const n = placesAt(state.at)[p];
  return hitButton(P.name[p], n >= 0 ? `on ${D.nodes.name[n]}` : STATES[P.state[p]] || "not on a node", () => {
    if (n >= 0) {
      reveal(n);
      set({ node: n, pod: p });
    } else {
      goToHeading("unplaced");
    }
  });
};

// Scroll a node outside the window to the middle.
function reveal(n) {
  const { top, bottom } = boxes[n].button.getBoundingClientRect();
  if (top < headroom() || bottom > innerHeight) scrollBy(0, (top + bottom - headroom() - innerHeight) / 2);
}

// The height of sticky parts at the top of the window.
const headroom = () => Math.max(0, ...[document.querySelector(".top"), byId("player")].map((each) => {
  return each && getComputedStyle(each).position === "sticky" ? each.getBoundingClientRect().bottom : 0;
}));

const hideFound = () => {
  byId("found").hidden = true;
};

function clearSearch() {
  byId("search").value = "";
  hideFound();
  if (state.mark && state.mark.key.startsWith("search ")) set({ mark: null });
}

function buildSearch() {
  const input = byId("search");
  const box = byId("found");
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(runSearch, N > 1000 ? 150 : 60);
  });
  const buttons = () => [...box.querySelectorAll("button")];
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "ArrowDown") {
      clearTimeout(timer);
      runSearch();
      const first = buttons()[0];
      if (first) event.key === "Enter" ? first.click() : first.focus();
      event.preventDefault();
    }
  });
  box.addEventListener("keydown", (event) => {
    const all = buttons();
    const at = all.indexOf(document.activeElement);
    if (event.key === "ArrowDown") all[Math.min(all.length - 1, at + 1)].focus();
    else if (event.key === "ArrowUp") (at > 0 ? all[at - 1] : input).focus();
    else if (event.key === "Escape") input.focus();
    else return;
    event.preventDefault();
  });
  document.addEventListener("pointerdown", (event) => event.target.closest(".search") || hideFound());
  document.addEventListener("focusin", (event) => event.target.closest(".search") || hideFound());
}
