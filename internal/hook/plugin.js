// segno records the turns of OpenCode with this file. 'segno enable opencode' wrote it, and
// 'segno disable opencode' removes it.
const commands = null
import { spawn, spawnSync } from "node:child_process"

const toolEvents = ["PreToolUse", "PostToolUse"]

export const Segno = async ({ client, directory }) => {
  const parents = new Map() // of the sessions of subagents
  const turns = new Map() // the id of the prompt with which the running turn of a session began
  const answers = new Map() // the newest text of a session's agent
  const assistants = new Set() // ids of its messages

  const root = (session) => {
    while (parents.has(session)) session = parents.get(session)
    return session
  }

  const show = (line) => client.tui.showToast({ body: { message: line, variant: "warning" } }).catch(() => {})

  // answerOf returns what segno printed. OpenCode shows it to the user and the model.
  const answerOf = (stdout) => {
    let answer
    try {
      answer = JSON.parse(stdout)
    } catch {}
    if (answer?.systemMessage) show(answer.systemMessage)
    return answer ?? {}
  }

  const request = (event) => {
    const [file, ...args] = toolEvents.includes(event.hook_event_name) ? commands.tool : commands.rest
    return [file, args, JSON.stringify({ cwd: directory, ...event })]
  }

  // send runs segno with an event. It always resolves: a failure of segno must not stop OpenCode.
  const send = (event) =>
    new Promise((resolve, reject) => {
      const [file, args, input] = request(event)
      let stdout = ""
      const child = spawn(file, args, { cwd: directory, stdio: ["pipe", "pipe", "ignore"], timeout: 60_000 })
      child.on("error", reject)
      child.on("close", () => resolve(answerOf(stdout)))
      child.stdout.on("data", (data) => (stdout += data))
      child.stdin.on("error", () => {})
      child.stdin.end(input)
    }).catch(() => ({})) // spawn throws some of its errors

  // sendNow returns when segno has recorded the event. 'opencode run' does not wait for plugins
  // when it ends.
  const sendNow = (event) => {
    try {
      const [file, args, input] = request(event)
      answerOf(spawnSync(file, args, { cwd: directory, input, timeout: 60_000 }).stdout)
    } catch {}
  }

  const end = (session, name) => {
    const prompt_id = turns.get(session)
    if (prompt_id === undefined) return
    const last_assistant_message = answers.get(session)
    turns.delete(session)
    answers.delete(session)
    assistants.clear()
    sendNow({ hook_event_name: name, session_id: session, prompt_id, last_assistant_message })
  }

  const tool = (name, input, more) =>
    send({ hook_event_name: name, session_id: root(input.sessionID), prompt_id: turns.get(root(input.sessionID)),
      tool_name: input.tool, tool_use_id: input.callID, ...more })

  return {
    "chat.message": async (input, output) => {
      const session = input.sessionID
      if (parents.has(session)) return
      const prompt = output.parts.filter((p) => p.type === "text" && !p.synthetic).map((p) => p.text).join("\n")
      if (!turns.has(session)) turns.set(session, output.message.id)
      const answer = await send({ hook_event_name: "UserPromptSubmit", session_id: session, prompt_id: turns.get(session), prompt })
      const text = answer.hookSpecificOutput?.additionalContext
      const last = output.parts.at(-1)
      if (text && last) output.parts.push({ id: last.id + "segno", sessionID: session, messageID: output.message.id, type: "text", synthetic: true, text })
    },
    "tool.execute.before": (input, output) => tool("PreToolUse", input, { tool_input: output.args }),
    "tool.execute.after": (input, output) =>
      tool("PostToolUse", input, { tool_response: { output: output.output, exitCode: output.metadata?.exit } }),
    event: async ({ event }) => {
      const { info = {}, part = {}, sessionID, error } = event.properties ?? {}
      switch (event.type) {
        case "session.created":
          if (info.parentID) parents.set(info.id, info.parentID)
          else await send({ hook_event_name: "SessionStart", session_id: info.id, source: "startup" })
          break
        case "message.updated":
          if (info.role === "assistant") assistants.add(info.id)
          break
        case "message.part.updated":
          if (part.type === "text" && assistants.has(part.messageID)) answers.set(part.sessionID, part.text)
          break
        case "session.compacted":
          await send({ hook_event_name: "SessionStart", session_id: root(sessionID), source: "compact" })
          break
        case "session.error":
          if (error?.name === "MessageAbortedError") end(sessionID, "Interrupt")
          break
        case "session.idle":
          end(sessionID, "Stop")
          break
      }
    },
  }
}
