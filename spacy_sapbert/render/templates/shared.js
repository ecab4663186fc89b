"use strict";
// What the review page and the page of `link --format html` have in common: elements, filters, keys.
const $ = (id) => document.getElementById(id);

function make(tag, text, set = {}, ...inside) {
  const element = Object.assign(document.createElement(tag), set);
  if (text !== null && text !== undefined) element.textContent = text;
  element.append(...inside);
  return element;
}

// A number with its noun: "1 note", "2,000 notes".
const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

// Whether a mention fits the filters. It has `group`, `status` (a list), `probability` (or null), and a field for each value of `which`.
function fits(mention) {
  const kind = $("kind").value, status = $("status").value, below = parseFloat($("below").value), which = $("which").value;
  return (!kind || mention.group === kind)
    && (!status || (status === "present" ? !mention.status.length : mention.status.includes(status)))
    && (Number.isNaN(below) || (mention.probability !== null && mention.probability < below))
    && (!which || Boolean(mention[which]));
}

function onFilters(work) {
  for (const id of ["kind", "status", "below", "which"]) $(id).addEventListener("change", () => work());
}

// The place of the next (by = 1) or previous (by = -1) of `count` items; the first one if none is chosen (at = -1).
const neighbourOf = (at, by, count) => (at < 0 ? 0 : Math.min(Math.max(at + by, 0), count - 1));

// Call keys[key] for a key that is pressed outside of fields, or else other(key), which returns whether it used the key. Enter on a link opens it.
function onKeys(keys, other = () => false) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input,select,textarea")) return;
    if (event.key === "Enter" && event.target.closest("a,button,summary")) return;
    if (Object.hasOwn(keys, event.key)) keys[event.key]();
    else if (!other(event.key)) return;
    event.preventDefault();
  });
}
