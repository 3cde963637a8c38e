// Build all parts, in reading order.

function start() {
  buildSummary();
  buildCapacity();
  buildControls();
  buildMap();
  readHash();
  refresh();
  mapNotes();
  buildPlayer();
  buildKeys();
  buildSearch();
  buildTip();
  buildUnplaced();
  buildAudit();
  buildWaves();
  buildPreferences();
  buildCharts();
  buildRest();
  buildPrint();
  on(["at", "colour", "measure", "mark", "node"], refresh);
  on(["at", "colour", "measure"], mapNotes);
  on(["node", "at", "measure"], showPanel);
  on(["pod"], openPod);
  if (state.node >= 0) {
    showPanel(["node"]);
    reveal(state.node);
  }
  started = true;
  addEventListener("hashchange", () => {
    readHash();
    if (state.node >= 0) reveal(state.node);
  });
  performance.mark("kubestow-ready");
  window.kubestowReady = true;
  document.documentElement.dataset.ready = "true";
}

start();
