// The page of a batch: sorting of tables by column, and filtering of rows by text. Without a script, the tables stay unsorted.
"use strict";
(() => {
  const live = document.getElementById("live");

  const value = (row, column) => {
    const cell = row.cells[column];
    const text = (cell.dataset.value ?? cell.textContent).trim();
    const number = /^-?[\d,]+(\.\d+)?(e[+-]?\d+)?$/i.test(text) ? Number(text.replaceAll(",", "")) : NaN;
    return { text, number };
  };

  // Numbers before texts, and empty cells last in either direction. Equal cells keep their order.
  function compare(a, b, sign) {
    if (!a.text || !b.text) return (a.text ? 0 : 1) - (b.text ? 0 : 1);
    const numbers = [a, b].map((each) => !Number.isNaN(each.number));
    if (numbers[0] !== numbers[1]) return numbers[0] ? -sign : sign;
    return sign * (numbers[0] ? a.number - b.number : a.text.localeCompare(b.text, "en", { numeric: true }));
  }

  function sort(table, header) {
    const up = header.getAttribute("aria-sort") !== "ascending";
    table.querySelectorAll("th[aria-sort]").forEach((each) => each.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const column = header.cellIndex;
    const rows = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
    rows.sort(([a], [b]) => compare(a, b, up ? 1 : -1));
    table.tBodies[0].append(...rows.map(([, row]) => row));
    live.textContent = `Sorted by ${header.textContent}, ${up ? "ascending" : "descending"}`;
  }

  const tables = [...document.querySelectorAll("table.fleet")];
  for (const table of tables) {
    for (const header of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = header.textContent;
      button.addEventListener("click", () => sort(table, header));
      header.replaceChildren(button);
    }
  }

  const input = document.getElementById("filter");
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows]);
  const texts = new Map(rows.map((row) => [row, [...row.cells].map((cell) => `${cell.innerText} ${cell.title}`).join(" ").toLowerCase()]));

  function filter() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) row.hidden = !words.every((word) => texts.get(row).includes(word));
    const shown = rows.filter((row) => !row.hidden).length;
    live.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  }

  input.addEventListener("input", filter);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape" && document.activeElement === input) {
      input.value = "";
      filter();
    } else if (event.key === "Enter" && document.activeElement === input) {
      rows.find((row) => !row.hidden && row.querySelector("a"))?.querySelector("a").focus();
    }
  });
  document.getElementById("tools").hidden = !rows.length;
  document.documentElement.dataset.ready = "true";
})();
