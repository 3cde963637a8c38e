// Before printing everything that is folded or left out is built and opened, and closed again afterwards.

let opened = [];

function unfoldAll() {
  for (const build of beforePrint) build();
  const closed = () => [...document.querySelectorAll("main details:not([open]), #panel details:not([open])")];
  for (let round = closed(); round.length; round = closed()) {
    for (const details of round) {
      if (details.build) details.build();
      details.open = true;
      opened.push(details);
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
