// A link stands behind # in the address. It is enough to show the same path elsewhere.
const at = (id) => document.getElementById(id);
const theatre = at("theatre"), message = at("message"), find = at("find");
let path = ["0"];       // what is shown
let ended = ["0"];      // where forward leads
let asked = 0;          // answers that come late are left aside

function say(text, wrong = false) {
  message.textContent = text;
  message.classList.toggle("wrong", wrong);
}

// The answers of the server; a page without one has its own.
const ask = globalThis.epochfence?.ask ?? (async (name, values, body) => {
  const options = body ? { method: "POST", body } : {};
  const answer = await fetch(`/api/${name}?${query(values)}`, options);
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error);
  return data;
});

const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value));
const beside = () => at("beside")?.value ?? "";

async function show({ keep = true } = {}) {
  const mine = ++asked;
  theatre.setAttribute("aria-busy", "true");
  try {
    const view = await ask("view", { path: path.join("."), beside: beside(), find: find.value });
    if (mine !== asked) return;
    theatre.style.setProperty("--lanes", Math.max(1, view.lanes));
    at("steps").innerHTML = view.chart;
    at("state").innerHTML = view.state;
    for (const button of at("state").querySelectorAll("[data-more]"))
      if (opened.has(button.dataset.more)) unfold(button, true);
    at("told").innerHTML = view.told;
    at("offers").innerHTML = view.steps;
    at("properties").innerHTML = view.properties;
    at("claimed").textContent = view.broken.length ? `${view.broken.length} broken here` : "";
    at("claimed").className = view.broken.length ? "status bad" : "status";
    const last = at("steps").querySelector("li.step:last-of-type");
    last.setAttribute("aria-current", "step");
    at("steps").scrollTop = last.offsetTop + last.offsetHeight - at("steps").clientHeight;
    at("where").textContent = view.length ? `Step ${view.length}` : "First state";
    at("first").disabled = at("back").disabled = !view.length;
    at("forth").disabled = at("last").disabled = ended.length <= path.length;
    if (at("begin")) at("begin").value = path[0];
    if (keep) history.replaceState(null, "", `#${view.link}`);
    dispatchEvent(new CustomEvent("shown", { detail: view }));
    const blocked = await ask("blocked", { path: path.join(".") });
    if (mine === asked) at("blocked").innerHTML = blocked.blocked;
    return true;
  } catch (error) {
    if (mine === asked) say(error.message, true);
    return false;
  } finally {
    if (mine === asked) theatre.setAttribute("aria-busy", "false");
  }
}

function go(wanted, { forget = false } = {}) {
  path = wanted;
  if (forget || !path.every((number, place) => ended[place] === number)) ended = path;
  say("");
  find.value = "";
  return show();
}

const take = (number) => go([...path, String(number)]);
const back = () => path.length > 1 && go(path.slice(0, -1));
const forth = () => path.length < ended.length && go(ended.slice(0, path.length + 1));

let searching = false;

async function run(goal) {
  if (searching) return;
  searching = true;
  say(`Looking for the shortest run to: ${goal} …`);
  at("cancel").hidden = false;
  try {
    const found = await ask("until", { path: path.join("."), goal });
    if (found.path) await go(found.path.split("."), { forget: true });
    else await show();
    say(`${goal}: ${found.why}`);
  } catch (error) {
    say(error.message, true);
  } finally {
    searching = false;
    at("cancel").hidden = true;
  }
}

async function load(file) {
  try {
    const found = await ask("trace", {}, file);
    await go(found.path.split("."), { forget: true });
    say(`${file.name}: ${found.told}`);
  } catch (error) {
    say(`${file.name}: ${error.message}`, true);
  }
}

async function read() {
  const link = location.hash.slice(1);
  path = ended = ["0"];
  if (!link) return show({ keep: false });
  try {
    const found = await ask("link", { link });
    if (found.refused) throw new Error(found.refused);
    path = ended = found.path.split(".");
    if (at("beside")) at("beside").value = found.beside;
    say("");
    return show();
  } catch (error) {
    say(error.message, true);
    return show({ keep: false });
  }
}

const opened = new Set();   // the machines whose fields are all shown

function unfold(button, open) {
  button.setAttribute("aria-expanded", open);
  button.closest("tbody").nextElementSibling.hidden = !open;
}

async function share() {
  try { await navigator.clipboard.writeText(location.href); say("The link is copied."); } catch { say(location.href); }
}

const clicks = {
  first: () => go(path.slice(0, 1)), back, forth, last: () => go(ended), share, cancel: () => ask("cancel", {}),
};

theatre.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button && clicks[button.id]) return void clicks[button.id]();
  if (button?.dataset.goal) return void run(button.dataset.goal);
  const more = event.target.closest("[data-more]");
  if (more) {
    const open = !opened.delete(more.dataset.more);
    if (open) opened.add(more.dataset.more);
    return void unfold(more, open);
  }
  const offer = event.target.closest("[data-take]");
  if (offer) return void take(offer.dataset.take);
  const link = event.target.closest("a[data-to]");
  if (link) event.preventDefault();
  const step = link ? link.dataset.to : event.target.closest("li[data-step]")?.dataset.step;
  if (step !== undefined && step !== String(path.length - 1)) go(path.slice(0, Number(step) + 1));
});
theatre.addEventListener("change", async (event) => {
  const { target } = event;
  if (target.id === "begin") go([target.value], { forget: true });
  if (target.id === "trace") { const [file] = target.files; if (file) load(file); target.value = ""; }
  if (target.id !== "beside") return;
  target.blur();
  if (target.value) say(`Making ${target.value} ready …`);
  if (await show()) say("");
});
find.addEventListener("input", () => show());
theatre.addEventListener("submit", (event) => { event.preventDefault(); at("goal").blur(); run(at("goal").value); });
addEventListener("hashchange", read);

function choose(way) {
  const offers = [...document.querySelectorAll("#offers [data-take]:not(:disabled)")];
  if (!offers.length) return;
  const now = offers.indexOf(document.activeElement);
  offers[Math.max(0, Math.min(offers.length - 1, now < 0 ? (way > 0 ? 0 : offers.length - 1) : now + way))].focus();
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const keys = {
    ArrowLeft: back, Backspace: back, ArrowRight: forth, Home: () => go(path.slice(0, 1)), End: () => go(ended),
    ArrowDown: () => choose(1), ArrowUp: () => choose(-1), "/": () => find.focus(), u: () => at("goal").focus(),
  };
  if (/^[1-9]$/.test(event.key)) {
    const offer = document.querySelectorAll("#offers [data-take]")[Number(event.key) - 1];
    if (offer && !offer.disabled) take(offer.dataset.take);
  } else if (keys[event.key]) keys[event.key]();
  else return;
  event.preventDefault();
});

globalThis.epochfence = { ...globalThis.epochfence, say, go, show, path: () => path.join(".") };
read();
