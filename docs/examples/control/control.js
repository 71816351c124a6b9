// Loses the answer to the second EndTxn, and shows the faults: node control.js http://127.0.0.1:8080
const faults = process.argv[2] + "/faults";
const fault = { name: "lost", do: "lose_answer", on: { request: "EndTxn", nth: 2 } };
const headers = { "Content-Type": "application/json" };
fetch(faults, { method: "POST", headers, body: JSON.stringify(fault) })
  .then((added) => {
    if (!added.ok) throw new Error("the fault was refused");
    return fetch(faults);
  })
  .then((shown) => shown.text())
  .then((text) => console.log(text));
