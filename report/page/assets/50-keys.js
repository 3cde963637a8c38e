// The map is one tab stop; the arrows, Home, End and Page keys move between its nodes. "/" goes to the search, Escape closes.

let current = 0;

function focusable(n) {
  if (!boxes[n]) return;
  boxes[current].button.tabIndex = -1;
  boxes[n].button.tabIndex = 0;
  current = n;
}

function focusNode(n) {
  if (!N) return;
  focusable(n === undefined ? current : n);
  boxes[current].button.focus();
}

// The node one row above or below: the nearest one in the next row, in any zone.
function vertical(order, at, way) {
  const from = boxes[order[at]].button.getBoundingClientRect();
  const middle = from.left + from.width / 2;
  let best = -1;
  let distance = Infinity;
  let row = null;
  for (let i = at + way; i >= 0 && i < order.length; i += way) {
    const each = boxes[order[i]].button.getBoundingClientRect();
    const beyond = way > 0 ? each.top >= from.bottom - 1 : each.bottom <= from.top + 1;
    if (!beyond) continue;
    if (row === null) row = each.top;
    if (Math.abs(each.top - row) > 2) break;
    const off = Math.abs(each.left + each.width / 2 - middle);
    if (off < distance) [best, distance] = [i, off];
  }
  return best < 0 ? at : best;
}

function moveInMap(event) {
  const order = zones.flatMap((zone) => zone.list);
  const at = order.indexOf(current);
  const page = 10;
  const to = {
    ArrowRight: () => at + 1,
    ArrowLeft: () => at - 1,
    ArrowDown: () => vertical(order, at, 1),
    ArrowUp: () => vertical(order, at, -1),
    Home: () => 0,
    End: () => order.length - 1,
    PageDown: () => at + page,
    PageUp: () => at - page,
  }[event.key];
  if (!to || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  focusNode(order[Math.max(0, Math.min(order.length - 1, to()))]);
}

function buildKeys() {
  const map = byId("map");
  map.addEventListener("keydown", moveInMap);
  map.addEventListener("focusin", (event) => {
    const button = event.target.closest("[data-n]");
    if (button) focusable(Number(button.dataset.n));
  });
  focusable(zones.length ? zones[0].list[0] : 0);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input[type=search], textarea, select");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      byId("search").focus();
      byId("search").select();
    }
    if (event.key !== "Escape") return;
    if (!byId("found").hidden || event.target === byId("search")) clearSearch();
    else if (state.node >= 0) closePanel();
    else if (state.mark) set({ mark: null });
  });
}
