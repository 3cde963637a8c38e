// A tooltip next to the pointer, or next to a tile with the keyboard focus. It repeats accessible names and the panel.

function buildTip() {
  const tip = byId("tip");
  const map = byId("map");
  const place = (x, y) => {
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18}px`;
  };
  const hide = () => {
    tip.hidden = true;
  };
  const show = (target, x, y) => {
    const button = target.closest("[data-n]");
    if (!button) return hide();
    const p = target.dataset.p;
    const key = `${button.dataset.n} ${p} ${state.at} ${state.measure}`;
    if (tip.dataset.key !== key || tip.hidden) {
      tip.dataset.key = key;
      tip.replaceChildren(...(p === undefined ? nodeTip(Number(button.dataset.n)) : podTip(Number(p))));
      tip.hidden = false;
    }
    place(x, y);
  };
  map.addEventListener("pointermove", (event) => event.pointerType === "mouse" && show(event.target, event.clientX, event.clientY));
  map.addEventListener("pointerleave", hide);
  map.addEventListener("focusin", (event) => {
    if (!TILES || !event.target.matches(":focus-visible")) return;
    const box = event.target.getBoundingClientRect();
    show(event.target, box.right - 14, box.bottom - 14);
  });
  map.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, { passive: true });
}

function nodeTip(n) {
  const usage = usageAt(state.at);
  return [h("strong", null, name(D.nodes.name[n])), zoneName(n) && h("div", { class: "dim" }, name(zoneName(n))),
    MEASURES.map((measure) => {
      const [used, of] = [usage[measure][n], capacity(measure, n)];
      return h("div", null, `${measure === "cpu" ? "CPU" : "Memory"} ${percent(used, of)}% `, h("span", { class: "dim" }, partOf(measure === "cpu" ? cpu : bytes, used, of)));
    }), h("div", null, `${number(usage.pods[n])} of ${pods(D.nodes.pods[n])}`), flagsOf(n).map(([, , text]) => h("div", { class: "dim" }, text))].flat().filter(Boolean);
}

function podTip(p) {
  const priority = P.priority[p] < 0 ? "" : `priority ${number(D.priorities[P.priority[p]])}`;
  return [h("strong", null, name(P.name[p])), P.workload[p] >= 0 && h("div", { class: "dim" }, name(workloadName(P.workload[p]))),
    h("div", null, `CPU ${cpu(need("cpu", p))} · memory ${bytes(need("memory", p))}`),
    h("div", { class: "dim" }, [priority, STATES[P.state[p]]].filter(Boolean).join(" · "))].filter(Boolean);
}
