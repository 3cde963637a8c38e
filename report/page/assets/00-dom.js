"use strict";
// Elements and texts. Text from the document goes through text nodes and attributes only, never through a parser.

const byId = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// A name from the document, isolated so that right-to-left letters do not reorder the text around it.
const name = (text, className) => h("bdi", { class: className ? `name ${className}` : "name" }, text);

const badge = (tone, text) => h("span", { class: `badge ${tone}` }, text);

// Scroll to a part of the page and move the focus there.
function goToHeading(part) {
  const title = byId(`${part}-title`);
  title.closest("section").scrollIntoView();
  title.focus({ preventScroll: true });
}

const empty = (text) => h("p", { class: "empty" }, text);

// head: texts, or [text, "num"] for a column of numbers; rows: lists of children.
function table(caption, head, rows) {
  const columns = head.map((column) => (Array.isArray(column) ? column : [column, null]));
  const box = h("div", { class: "scroll", role: "group", "aria-label": caption },
    h("table", null,
      h("caption", { class: "hidden" }, caption),
      h("thead", null, h("tr", null, columns.map(([text, kind]) => h("th", { scope: "col", class: kind }, text)))),
      h("tbody", null, rows.map((cells) => h("tr", null, cells.map((cell, i) => h("td", { class: columns[i][1] }, cell)))))));
  widths.observe(box);
  return box;
}

// Tables wider than their container are tab stops, so that they can be scrolled by keyboard.
const widths = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth + 1) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});

// Functions that draw hidden parts before the page is printed.
const beforePrint = [];

// The first `limit` of `items` and a button that shows the others. The element's `all` shows them, too.
function more(items, limit, what, draw) {
  const box = h("div", { class: "more" });
  const show = (count) => {
    const rest = items.length - count;
    box.replaceChildren(...[draw(items.slice(0, count))].flat());
    if (rest > 0) {
      box.append(h("button", {
        class: "link rest",
        onclick: () => {
          show(items.length);
          const next = box.querySelector("[tabindex], button, summary");
          if (next) next.focus();
        },
      }, `Show ${number(rest)} more ${what}`));
    }
  };
  show(Math.min(limit, items.length));
  if (items.length > limit) box.all = () => show(items.length);
  return box;
}

// A part that is built when first opened.
function later(summary, build, className) {
  const details = h("details", { class: className }, h("summary", null, summary));
  let built = false;
  details.build = () => {
    if (!built) details.append(build());
    built = true;
  };
  details.addEventListener("toggle", () => details.open && details.build());
  return details;
}
