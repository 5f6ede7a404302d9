// Questions to the server; the words are those of the Python interface.

export async function listRuns() {
  return read(await fetch("/api/runs"));
}

export async function ask(question, body) {
  const answer = await fetch(`/api/${question}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return read(answer);
}

async function read(answer) {
  let content;
  try {
    content = await answer.json();
  } catch {
    throw new Error(`the server answered ${answer.status} without JSON`);
  }
  if (!answer.ok) throw new Error(content.error ?? `the server answered ${answer.status}`);
  return content;
}
