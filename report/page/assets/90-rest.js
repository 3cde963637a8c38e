// Obstacles, unmodelled features, notes.

function buildRest() {
  const parts = [["obstacles", D.obstacles, obstacles], ["unmodelled", D.summary.unmodelled, unmodelled], ["notes", D.summary.notes, notes]];
  for (const [id, found, draw] of parts) byId(`${id}-body`).append(draw(found));
  byId("obstacles").hidden = (D.kind !== "RebalancePlan" || Boolean(D.capacity)) && !D.obstacles.length;
}

const obstacles = (found) => (found.length ? more(found, 30, "obstacles", (some) => table("Obstacles to the goals", ["Goal", "Obstacle", "About", "Proved"],
  some.map((each) => [each.goal, name(each.message), name(each.about || "–"), each.proved ? "✓ proved" : "not proved"])))
  : empty("All goals were reached."));

const unmodelled = (found) => (found.length ? more(found, 30, "fields", (some) => table("Not modelled", ["Object", "Field", "Effect"],
  some.map((each) => [name(each.pod || "all"), name(each.field), name(each.effect)]))) : empty("All features of the snapshot that affect placement are modelled."));

const notes = (found) => (found.length ? h("ul", { class: "notes" }, found.map((text) => h("li", null, name(text)))) : empty("No notes."));
