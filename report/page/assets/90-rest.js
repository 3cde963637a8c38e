// What else is to be known: obstacles, what is not modelled, notes.

function buildRest() {
  const parts = [["obstacles", D.obstacles, obstacles], ["unmodelled", D.summary.unmodelled, unmodelled], ["notes", D.summary.notes, notes]];
  for (const [id, found, draw] of parts) byId(`${id}-body`).append(draw(found));
  byId("obstacles").hidden = (D.kind !== "RebalancePlan" || Boolean(D.capacity)) && !D.obstacles.length;
}

const obstacles = (found) => (found.length ? more(found, 30, "obstacles", (some) => table("What stands in the way", ["Goal", "What stands in the way", "About", "Proved"],
  some.map((each) => [each.goal, name(each.message), name(each.about || "–"), each.proved ? "✓ proved" : "not proved"])))
  : empty("Nothing stood in the way of the goals."));

const unmodelled = (found) => (found.length ? more(found, 30, "fields", (some) => table("Not modelled", ["Object", "Field", "Effect"],
  some.map((each) => [name(each.pod || "all"), name(each.field), name(each.effect)]))) : empty("Everything in the snapshot that bears on placement is modelled."));

const notes = (found) => (found.length ? h("ul", { class: "notes" }, found.map((text) => h("li", null, name(text)))) : empty("No notes."));
