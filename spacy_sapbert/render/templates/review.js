// The review page. shared.js comes before it. The text of a note comes from the server as escaped HTML; everything else is set as text.
const PAGE = 50, CONCEPTS = 100, POLL = 5000, STATUSES = Object.fromEntries([...$("status").options].slice(2).map((each) => [each.value, each.text]));
const state = { notes: [], total: 0, cui: "", note: null, wanted: null, chosen: 0, picks: 0, last: 0, lists: 0, opened: 0, concepts: [], conceptLists: 0 };
const log = { events: new Map(), undone: new Set(), seen: new Set() }; // events by number, without undo; numbers of undone events; numbers of all events
const reviewer = () => $("reviewer").value.trim();

async function ask(path, said) {
  const headers = { "X-API-Key": $("key").value, "X-Reviewer": encodeURIComponent(reviewer()) };
  const options = said ? { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(said) } : { headers };
  const answer = await fetch(path, options);
  if (answer.status === 401) { $("key-label").hidden = false; $("key").focus(); }
  if (!answer.ok) {
    const problem = await answer.json().catch(() => null);
    throw new Error(problem && problem.error ? problem.error.message : `The service answered ${answer.status}.`);
  }
  return answer;
}
const get = async (path, query = {}) => (await ask(`${path}?${new URLSearchParams(query)}`)).json();

function tell(text, wrong = false) {
  $("message").textContent = text;
  $("message").classList.toggle("error", wrong);
}
const guarded = (work) => async (...given) => { try { return await work(...given); } catch (error) { tell(error.message, true); } };

// -- notes ------------------------------------------------------------------------------------------------------------

const listNotes = guarded(async (more = false) => {
  const offset = more ? state.notes.length : 0, asked = ++state.lists, picks = state.picks;
  const found = await get("/review/notes", { order: $("order").value, find: $("find").value.trim(), cui: state.cui, limit: PAGE, offset });
  if (asked !== state.lists) return; // a later search has been started meanwhile
  state.notes = [...(more ? state.notes : []), ...found.notes];
  state.total = found.total;
  showNotes();
  if (more) return;
  if (state.picks === picks) await openNote(state.notes.length ? state.notes[0][0] : null, 0, true);
  else filter(); // the reviewer has chosen a mention or a note meanwhile: stay there
});

function showNotes() {
  $("notes").replaceChildren(...state.notes.map(([id, linked, mentions]) => {
    const link = make("a", null, { href: "#" }, make("span", id), make("b", mentions === null ? "" : linked, { title: "linked mentions" }));
    link.note = id;
    link.addEventListener("click", (event) => { event.preventDefault(); pickNote(id); });
    return make("li", null, {}, link);
  }));
  $("more").hidden = state.notes.length >= state.total;
  markNote();
}

// Mark the open note in the list. The links stay, so that a click on one of them at this moment is not lost.
function markNote() {
  for (const link of $("notes").querySelectorAll("a")) {
    if (state.note && state.note.id === link.note) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

// Show a note, and choose one of its mentions: 0 is the first that is open. `listed`: no one asked for this note; it is the first of a list.
const openNote = guarded(async (id, chosen = 0, listed = false) => {
  const asked = ++state.opened, picks = state.picks;
  state.wanted = id;
  tell("");
  if (id === null) { state.note = null; $("note").replaceChildren(make("p", "No notes.", { className: "none" })); showPanel(); return; }
  const note = await get("/review/note", { id });
  if (asked !== state.opened) return; // another note has been opened meanwhile
  if (listed && state.note && state.picks !== picks) return openNote(state.note.id, state.chosen); // the reviewer has chosen a mention meanwhile: stay there
  state.note = note;
  const text = document.createElement("div");
  text.innerHTML = note.html; // escaped by the server; the policy of the page does not run scripts in it
  const parts = [make("h2", note.id), text];
  if (note.also.length) {
    const list = document.createElement("ul");
    list.innerHTML = note.also.map((each) => `<li>${each}</li>`).join("");
    parts.push(make("div", null, { className: "also" }, make("h3", "Inside or across other mentions"), list));
  }
  $("note").replaceChildren(...parts);
  for (const mention of note.mentions) {
    Object.assign(mention, { linked: mention.now !== "NIL", nil: mention.now === "NIL", open: mention.decided === null });
    const mark = $(`m-${mention.number}`);
    mark.addEventListener("click", () => pick(mention.number));
    mark.addEventListener("focus", () => { if (state.chosen !== mention.number) pick(mention.number, false); });
    mark.classList.toggle("decided", mention.decided !== null);
    mark.classList.toggle("wrong", mention.decided !== null && mention.now !== mention.cui);
    mark.classList.toggle("disputed", mention.disputed);
  }
  filter();
  markNote();
  const first = inOrder().find((mention) => mention.decided === null) || inOrder()[0];
  if (state.picks !== picks && current()) chosen = state.chosen; // the reviewer has chosen a mention meanwhile
  choose(chosen || (first ? first.number : 0), Boolean(chosen));
});

// Open a note because the reviewer wants it.
function pickNote(id) {
  state.picks += 1;
  openNote(id);
}

function neighbour(step) {
  const at = state.notes.findIndex(([id]) => state.note && id === state.note.id) + step;
  if (at >= 0 && at < state.notes.length) pickNote(state.notes[at][0]);
}

// -- filters ----------------------------------------------------------------------------------------------------------

const wanted = (mention) => fits(mention) && (!state.cui || mention.now === state.cui || mention.cui === state.cui);
const shown = () => (state.note ? state.note.mentions.filter(wanted) : []);
const certainty = (mention) => (mention.cui === "NIL" || mention.probability === null ? 2 : mention.probability); // mentions without a probability come last
// The shown mentions in the chosen order: the most doubtful link first, or as they are in the text.
const inOrder = () => ($("order").value === "doubt" ? shown().sort((one, other) => certainty(one) - certainty(other)) : shown());

function filter() {
  for (const mention of state.note ? state.note.mentions : []) $(`m-${mention.number}`).classList.toggle("off", !wanted(mention));
}

// -- the chosen mention -----------------------------------------------------------------------------------------------

const current = () => state.note && state.note.mentions.find((mention) => mention.number === state.chosen);

function choose(number, focus = true) {
  state.chosen = number;
  for (const mark of document.querySelectorAll(".m.chosen")) mark.classList.remove("chosen");
  const mark = number && $(`m-${number}`);
  if (mark) {
    mark.classList.add("chosen");
    if (focus && document.activeElement !== mark) { mark.focus({ preventScroll: true }); mark.scrollIntoView({ block: "center" }); }
  }
  showPanel();
}

// Choose a mention because the reviewer wants it, not because a note was opened.
function pick(number, focus = true) {
  state.picks += 1;
  choose(number, focus);
}

function step(by) {
  const all = inOrder(), at = all.findIndex((mention) => mention.number === state.chosen);
  if (all.length) pick(all[neighbourOf(at, by, all.length)].number);
}

function conceptLine(id, concept) {
  const code = make("code", id);
  return concept && concept.url ? make("a", null, { href: concept.url, target: "_blank", rel: "noopener noreferrer" }, code) : code;
}

function action(text, work, key = "") {
  const button = make("button", text, { type: "button", title: key ? `key ${key}` : "" });
  button.addEventListener("click", work);
  return button;
}

const when = ({ at }) => `, ${at.slice(0, 16).replace("T", " ")} UTC`; // the service writes times in UTC

function showPanel() {
  const mention = current(), panel = $("panel");
  if (!mention) { panel.replaceChildren(make("p", "Choose a mention, or select text to add one.", { className: "none" }), ...adding()); return; }
  const concept = state.note.concepts[mention.now], parts = [];
  parts.push(make("h3", mention.now === "NIL" ? "No concept" : concept ? concept.name : mention.now));
  const meta = make("p", `“${mention.mention}” · `, { className: "soft" });
  meta.append(mention.now === "NIL" ? "NIL" : conceptLine(mention.now, concept), concept ? ` · ${concept.types.join(" · ")}` : "");
  parts.push(meta);
  const proposed = state.note.concepts[mention.cui], other = mention.now === mention.cui ? "" : `The linker proposed ${mention.cui === "NIL" ? "no concept" : proposed ? proposed.name : mention.cui}: `;
  if (mention.why.length) parts.push(make("p", other + mention.why.join("; "), { id: "why" }));
  for (const each of mention.decisions) parts.push(make("p", `${each.reviewer}: ${each.kind}${each.kind === "choose" ? ` ${each.cui}` : ""}${when(each)}`, { className: "soft" }));
  if (mention.settled) parts.push(make("p", `settled by ${mention.settled.reviewer}: ${mention.settled.kind}${when(mention.settled)}`, { className: "soft" }));
  if (mention.disputed) parts.push(make("p", "The reviewers decided differently.", { className: "error" }));
  parts.push(make("div", null, { className: "row" }, action("Accept", () => decide("accept"), "a"), action("Reject", () => decide("reject"), "r"), action("No concept", () => decide("nil"), "0"), action("Undo", undo, "u")));
  parts.push(make("ol", null, { id: "candidates" }, ...mention.candidates.slice(0, 5).map(([id, score], i) => candidate(i + 1, id, state.note.concepts[id], score, mention))));
  if (concept && concept.definition) parts.push(make("p", concept.definition, { className: "soft" }));
  if (concept) parts.push(make("p", Object.entries(concept.codes).map(([vocabulary, codes]) => `${vocabulary} ${codes.join(", ")}`).join("; "), { className: "soft" }));
  parts.push(searching(mention), statuses(mention), naming(mention), ...adding());
  panel.replaceChildren(...parts);
}

function candidate(place, id, concept, score, mention) {
  const button = action("", () => decide("choose", { cui: id }), place <= 5 ? String(place) : "");
  button.append(make("b", place), make("span", `${concept ? concept.name : id} `, {}, make("code", id)), make("b", typeof score === "number" ? score.toFixed(2) : ""));
  button.classList.toggle("here", id === mention.now);
  return make("li", null, {}, button);
}

function searching(mention) {
  const input = make("input", null, { type: "search", id: "find-kb", maxLength: 200 }), list = make("ol");
  const search = guarded(async () => {
    const query = input.value.trim();
    if (!query) { list.replaceChildren(); return; }
    const { concepts } = await get("/concepts", { query, limit: 8 });
    list.replaceChildren(...concepts.map((each) => candidate("", each.id, each, null, mention)));
  });
  input.addEventListener("change", search);
  return make("div", null, {}, make("label", "Another concept ", {}, input), list);
}

function statuses(mention) {
  const boxes = Object.entries(STATUSES).map(([status, name]) => {
    const box = make("input", null, { type: "checkbox", checked: mention.status.includes(status), value: status });
    box.addEventListener("change", () => say({ kind: "status", mention: mention.number, status: [...set.querySelectorAll("input:checked")].map((each) => each.value) }));
    return make("label", null, {}, box, ` ${name} `);
  });
  const set = make("fieldset", null, {}, make("legend", "Status"), ...boxes);
  return set;
}

const oneLine = (text) => text.replace(/\s+/g, " ").trim(); // a field drops the ends of lines

function naming(mention) {
  const name = make("input", null, { id: "new-name", value: oneLine(mention.mention), maxLength: 200 });
  const add = action("Add as a name", () => say({ kind: "name", cui: mention.now, name: name.value.trim() }));
  const remove = action("Never this concept", () => removeName(mention, name.value.trim(), mention.now));
  remove.title = "Remove this name from the concept. From now on no mention with this text is linked to it.";
  const stop = action("Never any concept", () => removeName(mention, name.value.trim(), null));
  stop.title = "Put this name on the stop list. From now on no mention with this text is linked.";
  add.disabled = remove.disabled = mention.now === "NIL";
  return make("div", null, { className: "row" }, make("label", "Name ", {}, name), add, remove, stop);
}

// If the name is the text of the mention, the mention is rejected, too, so that its note keeps it when it is linked again.
async function removeName(mention, name, cui) {
  const same = oneLine(name).toLowerCase() === oneLine(mention.mention).toLowerCase();
  const wrong = same && mention.decided === null && mention.cui !== "NIL" && (cui === null || cui === mention.cui);
  if (wrong && !(await say({ kind: "reject", mention: mention.number, cui: mention.cui }))) return;
  await say(cui === null ? { kind: "stop", name } : { kind: "stop", name, cui });
}

function adding() {
  const concept = make("input", null, { id: "added-concept", placeholder: "CUI or NIL", size: 12 });
  return [make("div", null, { className: "row" }, make("label", "Concept of the selected text ", {}, concept), action("Add mention", () => addMention(concept.value.trim() || "NIL"), "m"), action("Move span here", moveSpan, "s"))];
}

// -- events of a reviewer ---------------------------------------------------------------------------------------------

const NAMING = new Set(["name", "stop", "undo"]); // events that may change the mentions of every note

const say = guarded(async (said, next = false) => {
  if (!reviewer()) { $("reviewer").focus(); throw new Error("Type your name into the field Reviewer first."); }
  const here = state.note ? state.note.id : null, picks = state.picks;
  const answer = await (await ask("/review/events", said)).json(), { mention } = answer;
  learn([{ ...said, ...answer, reviewer: reviewer(), undoes: said.kind === "undo" ? said.event : null }]);
  const left = state.wanted !== here; // the reviewer has gone to another note meanwhile
  if (!left && answer.note && answer.note !== here) await openNote(answer.note, mention); // an event of another note was undone
  else if (!left) {
    let chosen = state.picks === picks && mention ? mention : state.chosen;
    if (next && state.picks === picks) {
      const all = inOrder(), at = all.findIndex((each) => each.number === state.chosen);
      if (at >= 0 && at + 1 < all.length) chosen = all[at + 1].number;
    }
    await openNote(here, chosen);
  } else if (NAMING.has(said.kind)) await openNote(state.wanted, state.note && state.note.id === state.wanted ? state.chosen : 0); // it may have been read before the name was written
  await figures();
  return true;
});

function decide(kind, more = {}) {
  const mention = current();
  if (!mention) return tell("Choose a mention first: press j.", true);
  if (mention.cui === "NIL" && kind === "reject") return tell("There is no link to reject. Choose a concept, or press a if no concept is right.", true);
  if (mention.cui === "NIL" && kind === "accept") kind = "nil"; // that there is no concept is right
  const said = { kind, mention: mention.number, settles: $("settles").checked, ...more };
  if (kind === "accept" || kind === "reject") said.cui = mention.cui;
  say(said, true);
}

async function undo() {
  const own = [...log.events.values()].filter((each) => each.reviewer === reviewer() && !log.undone.has(each.event)), last = own.reduce((one, other) => (one && one.event > other.event ? one : other), null);
  if (!last) return tell(reviewer() ? `${reviewer()} has done nothing yet that can be undone.` : "Type your name into the field Reviewer first.", true);
  await takeBack(last);
}

async function takeBack(said) {
  log.undone.add(said.event); // at once, so that a second press of the key undoes the event before
  if (await say({ kind: "undo", event: said.event })) tell(`Undone: ${said.name ? wordsOf(said) : said.kind}.`);
  else { log.undone.delete(said.event); showNames(); }
}

// Take notice of events. Return whether there is one that this page did not write.
function learn(events) {
  const unknown = events.some((each) => !log.seen.has(each.event));
  for (const each of events) {
    log.seen.add(each.event);
    if (each.kind === "undo") log.undone.add(each.undoes);
    else log.events.set(each.event, { ...log.events.get(each.event), ...each });
  }
  showNames();
  return unknown;
}

function wordsOf({ kind, name, cui, concept }) {
  if (kind === "name") return `“${name}” is a name of ${concept || cui}`;
  return cui ? `“${name}” is never ${concept || cui}` : `“${name}” is never linked`;
}

// The names that were added, or rejected for good, the last one first. Reviewers can take back their own.
function showNames() {
  const names = [...log.events.values()].filter((each) => each.name && !log.undone.has(each.event)).sort((one, other) => other.event - one.event);
  $("name-list").replaceChildren(...names.map((each) => {
    const own = each.reviewer === reviewer();
    return make("li", null, {}, make("span", `${wordsOf(each)} (${each.reviewer})`, { title: each.cui || "" }), own ? action("Take back", () => takeBack(each)) : "");
  }));
  $("no-names").hidden = names.length > 0;
}

function textOf(range) {
  const part = range.cloneContents();
  for (const end of part.querySelectorAll("br")) end.replaceWith("\n");
  return part.textContent;
}

function selected() {
  const text = $("note").querySelector(".entities"), range = getSelection().rangeCount ? getSelection().getRangeAt(0) : null;
  if (!text || !range || range.collapsed || !text.contains(range.commonAncestorContainer)) return null;
  const before = document.createRange();
  before.setStart(text, 0);
  before.setEnd(range.startContainer, range.startOffset);
  const inside = textOf(range), trimmed = inside.trim();
  const start = [...textOf(before)].length + [...inside].length - [...inside.trimStart()].length; // offsets are code points, as in Python
  return trimmed ? { start, end: start + [...trimmed].length } : null;
}

function addMention(cui) {
  const place = selected();
  if (!place) return tell("Select a part of the note first.", true);
  const there = state.note.mentions.find((mention) => mention.start === place.start && mention.end === place.end);
  if (there && cui === "NIL") { pick(there.number); return tell("This text is a mention already. It is chosen now: decide about it with the keys, or with its candidates."); }
  say({ kind: "add", note: state.note.id, cui, ...place });
}

function moveSpan() {
  const place = selected(), mention = current();
  if (!place || !mention) return tell("Choose a mention first, and select a part of the note.", true);
  say({ kind: "span", mention: mention.number, ...place });
}

// -- figures, concepts, other reviewers -------------------------------------------------------------------------------

function percent(share) {
  const shown = `${(100 * share).toFixed(1)}%`;
  return shown === "100.0%" && share < 1 - 1e-9 ? "over 99.9%" : shown;
}

const figures = guarded(async () => {
  const wished = $("wished").checkValidity() && $("wished").value ? { wished: $("wished").value } : {};
  const found = await get("/review/report", wished), all = found.precision[0];
  const parts = [counted(found.notes, "note"), counted(found.mentions, "mention"), `${counted(found.open, "link")} still open`];
  if (all.reviewed) parts.push(`${all.right} of ${all.reviewed} right: ${percent(all.precision)} (${percent(all.low)} to ${percent(all.high)}${$("order").value === "random" ? "" : "; for a fair figure, review in random order"})`);
  if (found.left !== null) parts.push(`${counted(found.left, "link")} left to review for ${percent(found.wished)}`);
  for (const { reviewers, mentions, same, kappa } of found.agreement) parts.push(`${reviewers.join(" and ")}: the same for ${same} of ${counted(mentions, "mention")}${kappa === null ? "" : `, kappa ${kappa.toFixed(2)}`}`);
  if (found.disputed) parts.push(`${found.disputed} disputed`);
  $("summary").textContent = parts.join(" · ");
});

const listConcepts = guarded(async (more = false) => {
  const asked = ++state.conceptLists, offset = more ? state.concepts.length : 0;
  const found = await get("/review/concepts", { find: $("find-concept").value.trim(), limit: CONCEPTS, offset });
  if (asked !== state.conceptLists) return; // a later search has been started meanwhile
  state.concepts = [...(more ? state.concepts : []), ...found.concepts];
  const left = found.total - state.concepts.length;
  $("more-concepts").hidden = left <= 0;
  $("more-concepts").textContent = `More concepts (${left.toLocaleString("en")} left)`;
  $("concept-list").replaceChildren(...state.concepts.map(([id, name, count]) => {
    const button = make("button", null, { type: "button", title: id }, make("span", name || id), make("b", count));
    button.setAttribute("aria-pressed", String(state.cui === id));
    button.addEventListener("click", () => { state.cui = state.cui === id ? "" : id; showChosenConcept(); listNotes(); });
    return make("li", null, {}, button);
  }));
});

function showChosenConcept() {
  for (const button of $("concept-list").querySelectorAll("button")) button.setAttribute("aria-pressed", String(state.cui === button.title));
}

async function follow() {
  if (document.hidden) return;
  const events = await get("/review/events", { after: state.last }).catch(() => []);
  if (!events.length) return;
  const others = learn(events);
  state.last = events[events.length - 1].event;
  if (others && state.note && state.wanted === state.note.id && !$("panel").contains(document.activeElement)) { await openNote(state.note.id, state.chosen); await figures(); }
}

const download = guarded(async (format) => {
  const answer = await ask(`/review/export?format=${format}`), name = /filename="([^"]+)"/.exec(answer.headers.get("content-disposition"))[1];
  const link = make("a", null, { href: URL.createObjectURL(await answer.blob()), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
});

// -- start ------------------------------------------------------------------------------------------------------------

const KEYS = { j: () => step(1), k: () => step(-1), a: () => decide("accept"), r: () => decide("reject"), 0: () => decide("nil"), u: undo, n: () => neighbour(1), p: () => neighbour(-1),
  m: () => { const input = $("added-concept"); addMention((input && input.value.trim()) || "NIL"); }, s: moveSpan,
  Enter: () => { const first = document.querySelector("#candidates button"); if (first) first.focus(); } };

onKeys(KEYS, (key) => {
  const mention = current(), candidates = mention ? mention.candidates.slice(0, 5) : [];
  if (!/^[1-5]$/.test(key) || !candidates[key - 1]) return false;
  decide("choose", { cui: candidates[key - 1][0] });
  return true;
});
onFilters(filter);
for (const id of ["order", "find"]) $(id).addEventListener("change", () => { listNotes(); figures(); });
$("wished").addEventListener("change", () => figures());
$("key").addEventListener("change", () => start());
$("reviewer").addEventListener("change", () => { keepReviewer(reviewer()); showNames(); });
$("more").addEventListener("click", () => listNotes(true));
$("concepts").addEventListener("toggle", () => { if ($("concepts").open) listConcepts(); });
$("find-concept").addEventListener("input", () => listConcepts());
$("more-concepts").addEventListener("click", () => listConcepts(true));
for (const [format, name] of [["gold", "gold, DocBin"], ["jsonl", "gold, JSON Lines"], ["usagi", "table for Usagi"], ["sssom", "SSSOM"], ["names", "added names"]]) $("formats").append(action(name, () => download(format)), " ");

// The reviewer's name stays over reloads. A browser may refuse to store it.
const STORED = "spacy-sapbert reviewer";
function keepReviewer(name) { try { localStorage.setItem(STORED, name); } catch { /* the name is typed again after a reload */ } }
function keptReviewer() { try { return localStorage.getItem(STORED) || ""; } catch { return ""; } }

async function start() {
  const events = await get("/review/events").catch(() => []); // before the notes: a later event is found by follow()
  state.last = events.length ? events[events.length - 1].event : 0;
  await listNotes();
  learn(events);
  await figures();
}
$("reviewer").value = $("reviewer").value || keptReviewer();
start();
setInterval(follow, POLL);
