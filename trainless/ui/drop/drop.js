// One page: a file goes to the server, its answers come back. Everything from data is put in as text.
const at = (id) => document.getElementById(id);
const MOST_NAMES = 8000; // signs of a request's head that names of files may take
const percent = (share) => `${(100 * share).toFixed(1)} %`;

function element(name, text = "", kind = "") {
  const made = document.createElement(name);
  if (text !== "") made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function say(text, bad = false) {
  at("state").textContent = text;
  at("state").className = bad ? "bad" : "";
}

function chips(one) {
  const found = element("div");
  if (one.refer) found.append(element("span", "refer to a person", "chip bad"));
  if (one.unlike_training) found.append(element("span", "unlike the training data", "chip bad"));
  for (const [name, called] of Object.entries(one.screen || {}))
    found.append(element("span", called ? `${name} at the threshold` : `not ${name} at the threshold`, called ? "chip bad" : "chip"));
  if (one.balanced_label && one.balanced_label !== one.answer)
    found.append(element("span", `${one.balanced_label} stands out most against its share of the training data`, "chip"));
  if (one.possible) found.append(element("span", `possible: ${one.possible.join(", ") || "no class fits"}`, "chip"));
  if (one.votes) found.append(element("span", `votes: ${Object.entries(one.votes).map(([name, count]) => `${name} ${count}`).join(", ")}`, "chip"));
  return found;
}

function card(one) {
  const made = element("figure", "", "answer");
  made.append(element("h3", `Case ${one.case}`));
  if (one.probabilities) {
    made.append(element("p", one.answer, "said"));
    const table = element("table");
    const sorted = Object.entries(one.probabilities).sort((a, b) => b[1] - a[1]).slice(0, 12);
    for (const [name, share] of sorted) {
      const row = element("tr"), bar = element("progress"), cell = element("td");
      bar.max = 1;
      bar.value = share;
      cell.append(bar);
      row.append(element("th", name), cell, element("td", percent(share)));
      table.append(row);
    }
    made.append(table);
  } else {
    const ends = one.interval ? ` (${one.interval[0].join(", ")} to ${one.interval[1].join(", ")})` : "";
    made.append(element("p", `${one.answer.join(", ")}${ends}`, "said"));
  }
  made.append(chips(one));
  if (one.picture) {
    const image = element("img");
    image.src = one.picture;
    image.alt = "Where it looked";
    made.append(image, element("p", one.looked, "why"));
  }
  for (const near of one.similar || [])
    made.append(element("p", `Similar: training case ${near.training_case}, ${near.is}, similarity ${near.similarity.toFixed(2)}`, "why"));
  return made;
}

// One file, or several that belong together, such as a header and its recording: one after the other in the body.
async function asked(files) {
  const what = files.length === 1 ? files[0].name : `${files.length} files`;
  say(`Asking about ${what} …`);
  at("answers").replaceChildren();
  try {
    const sent = { "x-file-name": files.map((file) => encodeURIComponent(file.name)).join(",") };
    if (files.length > 1) sent["x-file-sizes"] = files.map((file) => file.size).join(",");
    if (sent["x-file-name"].length > MOST_NAMES) return say(`${what} are too many for this page: give fewer, or use trainless predict`, true);
    const reply = await fetch("/api/predict?explain=1", { method: "POST", headers: sent, body: new Blob(files) });
    const found = await reply.json();
    if (!reply.ok) return say(found.problem, true);
    const counted = `${found.cases.length} ${found.cases.length === 1 ? "case" : "cases"} in ${what}`;
    say([found.notes.join(" ") || `${counted}.`, found.referral].filter(Boolean).join(" "), found.notes.length > 0);
    at("answers").replaceChildren(...found.cases.slice(0, 200).map(card));
  } catch (error) {
    say("The server did not answer: are the files too large, or has it ended?", true);
  }
}

async function begin() {
  const reply = await fetch("/api/about");
  const about = await reply.json();
  if (!reply.ok) return say(about.problem, true);
  at("title").textContent = about.task;
  const many = about.members === 1 ? "One network says" : `${about.members} networks together say`;
  at("about").textContent = about.classes.length ? `${many} which it is: ${about.classes.slice(0, 12).join(", ")}` : `${many} its value`;
  at("expected").textContent = `or choose them: ${about.reads}, up to ${Math.round(about.limit / 1e6)} MB; the networks see ${about.input_shape.slice(1).join(" × ") || about.input_shape[0]} values`;
}

const place = at("place");
for (const kind of ["dragover", "drop"]) document.addEventListener(kind, (event) => event.preventDefault());
place.addEventListener("dragover", () => place.classList.add("over"));
for (const kind of ["dragleave", "drop"]) place.addEventListener(kind, () => place.classList.remove("over"));
place.addEventListener("drop", (event) => event.dataTransfer.files.length && asked([...event.dataTransfer.files]));
at("file").addEventListener("change", (event) => event.target.files.length && asked([...event.target.files]));
begin();
