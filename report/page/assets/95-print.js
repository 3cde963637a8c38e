// Before printing, folded and omitted parts are built and opened; afterwards they are closed again.

let opened = [];

function unfoldAll() {
  for (const build of beforePrint) build();
  const folded = () => document.querySelectorAll(":is(main, #panel) :is(details:not([open]), .more:has(> .rest))");
  for (let round = folded(); round.length; round = folded()) {
    for (const each of round) {
      if (each.matches(".more")) each.all();
      else {
        each.build();
        each.open = true;
        opened.push(each);
      }
    }
  }
}

function foldAgain() {
  for (const details of opened) details.open = false;
  opened = [];
}

function buildPrint() {
  addEventListener("beforeprint", unfoldAll);
  addEventListener("afterprint", foldAgain);
  matchMedia("print").addEventListener("change", (event) => (event.matches ? unfoldAll() : foldAgain()));
}
