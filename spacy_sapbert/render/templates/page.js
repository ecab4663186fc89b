// The page of `link --format html`. shared.js comes before it. All notes are in the page; this script searches, filters, sorts and moves.
const articles = [...document.querySelectorAll("main article")].map((element, place) => ({
  element, place, item: document.querySelector(`nav a[href="#${element.id}"]`).parentElement, text: null, marks: [],
}));
const found = { cui: "", chosen: null, note: null };

for (const note of articles) {
  note.marks = [...note.element.querySelectorAll(".m")].map((element) => {
    const { c: cui, p: probability } = element.dataset, classes = [...element.classList];
    const of = (prefix) => classes.filter((each) => each.startsWith(prefix)).map((each) => each.slice(2));
    const nil = classes.includes("nil");
    return { element, note, cui, group: of("g-")[0], status: of("s-"), probability: probability ? Number(probability) : null, nil, linked: !nil, shown: true };
  });
}
const markOf = new Map(articles.flatMap((note) => note.marks).map((mark) => [mark.element, mark]));
const concepts = [...document.querySelectorAll("#concept-list a")].map((link) => ({
  link, item: link.parentElement, count: link.querySelector("b"), cui: markOf.get(document.querySelector(link.getAttribute("href"))).cui, name: link.firstElementChild.textContent,
}));

// The text of a note as it is shown, without the cards of its mentions.
function textOf(note) {
  if (note.text === null) {
    const copy = note.element.cloneNode(true);
    for (const other of copy.querySelectorAll(".card,details,.also")) other.remove();
    for (const end of copy.querySelectorAll("br")) end.replaceWith(" ");
    note.text = copy.textContent.replace(/\s+/g, " ").toLowerCase();
  }
  return note.text;
}

const typed = (id) => ($(id) ? $(id).value : "").replace(/\s+/g, " ").trim().toLowerCase();
const chosenSome = () => found.cui || ["kind", "status", "below", "which"].some((id) => $(id).value);

function show() {
  const text = typed("find"), some = chosenSome(), counts = new Map();
  let mentions = 0, notes = 0;
  for (const note of articles) {
    const here = !text || textOf(note).includes(text);
    let count = 0;
    for (const mark of note.marks) {
      const fitting = fits(mark);
      const shown = fitting && (!found.cui || mark.cui === found.cui);
      if (shown !== mark.shown) { // writing into thousands of elements takes seconds
        mark.shown = shown;
        mark.element.classList.toggle("off", !shown);
        mark.element.tabIndex = shown ? 0 : -1;
      }
      count += shown;
      if (here && fitting && mark.linked) counts.set(mark.cui, (counts.get(mark.cui) || 0) + 1);
    }
    note.element.hidden = note.item.hidden = !here || Boolean(some && !count);
    if (!note.element.hidden) { notes += 1; mentions += count; }
  }
  const concept = typed("find-concept");
  for (const { item, count, link, cui, name } of concepts) {
    count.textContent = counts.get(cui) || 0;
    item.hidden = !counts.get(cui) || !`${cui} ${name}`.toLowerCase().includes(concept);
    if (cui === found.cui) { link.setAttribute("aria-current", "true"); item.hidden = false; } else link.removeAttribute("aria-current");
  }
  const of = (number, all, noun) => `${number.toLocaleString("en")} of ${counted(all, noun)}`;
  $("shown").textContent = text || some ? `Shown: ${of(mentions, markOf.size, "mention")} in ${of(notes, articles.length, "note")}` : "";
}

// A note is as doubtful as its most doubtful link among the mentions that are shown. Notes without a probability come last.
function sort() {
  const doubt = (note) => Math.min(2, ...note.marks.filter((mark) => mark.shown && mark.linked && mark.probability !== null).map((mark) => mark.probability));
  const by = $("order").value === "doubt" ? new Map(articles.map((note) => [note, doubt(note)])) : new Map();
  articles.sort((one, other) => (by.get(one) || 0) - (by.get(other) || 0) || one.place - other.place);
  $("notes").append(...articles.map((note) => note.element));
  $("note-list").append(...articles.map((note) => note.item));
}

function move(by) {
  const marks = articles.filter((note) => !note.element.hidden).flatMap((note) => note.marks.filter((mark) => mark.shown));
  if (!marks.length) return;
  const at = marks.indexOf(markOf.get(document.activeElement) || found.chosen);
  focusOn(marks[neighbourOf(at, by, marks.length)]);
}

function moveNote(by) {
  const notes = articles.filter((note) => !note.element.hidden);
  if (!notes.length) return;
  const note = notes[neighbourOf(notes.indexOf(found.note), by, notes.length)], mark = note.marks.find((each) => each.shown);
  if (mark) focusOn(mark);
  found.note = note;
  note.element.scrollIntoView({ block: "start" });
}

function focusOn(mark) {
  found.chosen = mark;
  found.note = mark.note;
  mark.element.focus({ preventScroll: true });
  mark.element.scrollIntoView({ block: "center" });
}

// Of equal cards, only the first one is in the page.
function addCard(mark) {
  if (!mark || mark.querySelector(".card")) return;
  const card = $(mark.getAttribute("aria-describedby")).cloneNode(true);
  card.removeAttribute("id");
  mark.append(card);
}

const update = () => { show(); if ($("order").value === "doubt") sort(); };
onFilters(update);
for (const field of document.querySelectorAll("#find,#find-concept")) field.addEventListener("input", update);
$("order").addEventListener("change", sort);
for (const { link, cui } of concepts) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    found.cui = found.cui === cui ? "" : cui;
    update();
    if (found.cui) { found.chosen = null; move(1); }
  });
}
$("notes").addEventListener("pointerover", (event) => addCard(event.target.closest(".m")));
$("notes").addEventListener("focusin", (event) => {
  const mark = event.target.closest(".m");
  addCard(mark);
  found.chosen = markOf.get(mark) || found.chosen;
  found.note = articles.find((note) => note.element.contains(event.target)) || found.note;
});
onKeys({ j: () => move(1), k: () => move(-1), n: () => moveNote(1), p: () => moveNote(-1),
  Enter: () => { const link = found.chosen && found.chosen.element.querySelector(".card a"); if (link) link.focus(); } });
for (const tools of document.querySelectorAll(".tools")) tools.hidden = false; // without this script they would do nothing
update();
