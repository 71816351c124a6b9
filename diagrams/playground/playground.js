// The answers come from Python in a worker. Those of the first system are in the page: they need none.
const part = (id) => document.getElementById(id);
const begun = JSON.parse(part("begun").textContent);
const waiting = new Map();
const STARTING = "Python is starting …";
let number = 0, isFirst = true, isThere = false;

const worker = new Promise((resolve, reject) => {
  const script = document.createElement("script");
  script.src = "python.js";
  script.onerror = () => reject(new Error("python.js can't be read: keep it beside this page."));
  script.onload = () => {
    const { worker: text, files } = globalThis.PYTHON;
    delete globalThis.PYTHON;
    const made = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
    made.onerror = () => reject(new Error("Python can't be started in this browser."));
    made.onmessage = ({ data }) => {
      if (data.failed) return reject(new Error(`Python can't be started in this browser: ${data.failed}`));
      if (data.seen) return void (part("message").textContent = `Searching: ${data.seen} …`);
      waiting.get(data.id)(data);
      waiting.delete(data.id);
    };
    made.postMessage({ files, runs: begun.runs });
    resolve(made);
  };
  addEventListener("load", () => document.head.append(script));
});
worker.catch((error) => { part("message").textContent = error.message; part("message").className = "wrong"; });

async function asked(name, values) {
  // Its first answer takes some seconds: without a word, the page seems to be stuck.
  if (!isThere && !part("message").textContent) part("message").textContent = STARTING;
  const to = await worker;
  const answer = await new Promise((resolve) => {
    waiting.set(++number, resolve);
    to.postMessage({ id: number, name, values: JSON.stringify(values) });
  });
  isThere = true;
  if (part("message").textContent === STARTING) part("message").textContent = "";
  const data = JSON.parse(answer.text);
  if (data.error) throw new Error(data.error);
  return data;
}

// Settings ---------------------------------------------------------------------------------------

function put(data) {
  isFirst = false;
  for (const id of ["about", "bar", "settings"]) part(id).innerHTML = data[id];
  part("puzzle").hidden = !data.puzzle;
  part("puzzle").innerHTML = data.puzzle ?? "";
  part("puzzle").dataset.breaks = data.broken ?? "";
  part("claims").open = data.few;
}

async function ask(name, values, body) {
  if (isFirst && !values.find && !values.beside) {
    const known = begun.answers[`${name} ${values.path}`];
    if (known) return known;
  }
  if (name === "link" && values.link === begun.link) return { path: "0", beside: "" };
  if (body) values = { text: await body.text() };
  const data = await asked(name, values);
  if (data.settings) put(data);
  return data;
}

async function change(name, values) {
  const { say, go } = globalThis.epochfence;
  say("Opening …");
  try {
    const data = await ask(name, values);
    await go(data.path.split("."), { forget: true });
    say(data.told ?? "");
    if (data.puzzle) part("theatre").scrollIntoView({ block: "nearest" });
  } catch (error) {
    say(error.message, true);
  }
}

const chosen = (form) => Object.fromEntries([...new FormData(form)].filter(([name, value]) => value !== ""));

part("settings").addEventListener("change", (event) => {
  if (event.target.id === "system") change("open", { system: event.target.value });
  if (event.target.name === "bounds" && event.target.value)
    for (const input of event.target.form.querySelectorAll("[name^='set:']")) input.value = "";
});
part("settings").addEventListener("submit", (event) => { event.preventDefault(); change("open", chosen(event.target)); });

// Puzzles ----------------------------------------------------------------------------------------

let current = "";
const begin = (name) => { current = name; return change("puzzle", { name }); };

async function help() {
  const { say, path } = globalThis.epochfence;
  try {
    const found = await asked("hint", { path: path() });
    say(found.told);
    const filter = part("find");
    if (found.take !== undefined && filter.value) { filter.value = ""; await globalThis.epochfence.show(); say(found.told); }
    document.querySelector(`#offers [data-take="${found.take}"]`)?.focus();
  } catch (error) {
    say(error.message, true);
  }
}

part("gallery").addEventListener("click", (event) => {
  const button = event.target.closest("[data-puzzle]");
  if (button) begin(button.dataset.puzzle);
});
part("puzzle").addEventListener("click", (event) => {
  const { id } = event.target.closest("button") ?? {};
  if (id === "hint") help();
  if (id === "mended") change("mended", { path: globalThis.epochfence.path() });
  if (id === "again") begin(current);
});
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
  if (event.key === "h" && !part("puzzle").hidden) help();
  if (event.key === "g") part("gallery").querySelector("[data-puzzle]").focus();
});
part("to-gallery").addEventListener("click", () => part("gallery").querySelector("[data-puzzle]").focus());
addEventListener("shown", ({ detail }) => {
  const solved = part("solved");
  if (!solved || !detail.broken.includes(part("puzzle").dataset.breaks)) return;
  if (solved.hidden) part("puzzle").scrollIntoView();
  solved.hidden = false;
  part("gallery").querySelector(`[data-puzzle="${current}"]`)?.classList.add("done");
});

globalThis.epochfence = { ask };
