// segno records the turns of OpenCode with this file. 'segno enable opencode' wrote it, and
// 'segno disable opencode' removes it.
const commands = null
import { spawn, spawnSync } from "node:child_process"

const toolEvents = ["PreToolUse", "PostToolUse"]

// recorder sends the events of sessions to segno. show shows a line to the user.
const recorder = (directory, show) => {
  const parents = new Map() // of the sessions of subagents
  const known = new Set() // sessions of which the parent is known, or that there is none
  const turns = new Map() // the id of the prompt with which the running turn of a session began
  const answers = new Map() // the newest text of a session's agent
  const calls = new Map() // the calls of tools that run, by their ids

  const root = (session) => {
    while (parents.has(session)) session = parents.get(session)
    return session
  }

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

  const toolEvent = (name, { session, tool, call, input }, more) =>
    send({ hook_event_name: name, session_id: root(session), prompt_id: turns.get(root(session)), tool_name: tool, tool_use_id: call, tool_input: input, ...more })

  return {
    isSubagent: (session) => parents.has(session),
    // findParents finds the sessions above one that an earlier process of OpenCode created. parentOf returns a session's parent.
    findParents: async (session, parentOf) => {
      while (session && !known.has(session)) {
        known.add(session)
        const parent = await parentOf(session).catch(() => undefined)
        if (parent) parents.set(session, parent)
        session = parent
      }
    },
    begin: (session, parent) => {
      known.add(session)
      if (parent) parents.set(session, parent)
      else return send({ hook_event_name: "SessionStart", session_id: session, source: "startup" })
    },
    compact: (session) => send({ hook_event_name: "SessionStart", session_id: root(session), source: "compact" }),
    // prompt returns a text for the model, if segno has one.
    prompt: async (session, message, prompt) => {
      if (!turns.has(session)) turns.set(session, message)
      const answer = await send({ hook_event_name: "UserPromptSubmit", session_id: session, prompt_id: turns.get(session), prompt })
      return answer.hookSpecificOutput?.additionalContext
    },
    beginCall: ({ session, tool, call, input }) => {
      calls.set(call, { session: root(session), input })
      return toolEvent("PreToolUse", { session, tool, call, input })
    },
    endCall: ({ session, tool, call }, more) => {
      const { input } = calls.get(call) ?? {}
      calls.delete(call)
      return toolEvent("PostToolUse", { session, tool, call, input }, more)
    },
    isRunning: (call) => calls.has(call),
    answer: (session, text) => answers.set(session, text),
    end: (session, name) => {
      const prompt_id = turns.get(session)
      if (prompt_id === undefined) return
      const last_assistant_message = answers.get(session)
      turns.delete(session)
      answers.delete(session)
      for (const [id, call] of calls) if (call.session === session) calls.delete(id)
      sendNow({ hook_event_name: name, session_id: session, prompt_id, last_assistant_message })
    },
  }
}

// server is the plugin for OpenCode 1.
const server = async ({ client, directory }) => {
  const show = (line) => client.tui.showToast({ body: { message: line, variant: "warning" } }).catch(() => {})
  const segno = recorder(directory, show)
  const parentOf = async (id) => (await client.session.get({ path: { id } })).data?.parentID
  const assistants = new Set() // ids of messages of the agent
  const call = ({ sessionID, tool, callID }) => ({ session: sessionID, tool, call: callID })

  return {
    "chat.message": async (input, output) => {
      const session = input.sessionID
      await segno.findParents(session, parentOf)
      if (segno.isSubagent(session)) return
      const prompt = output.parts.filter((p) => p.type === "text" && !p.synthetic).map((p) => p.text).join("\n")
      const text = await segno.prompt(session, output.message.id, prompt)
      const last = output.parts.at(-1)
      if (text && last) output.parts.push({ id: last.id + "segno", sessionID: session, messageID: output.message.id, type: "text", synthetic: true, text })
    },
    "tool.execute.before": (input, output) => segno.beginCall({ ...call(input), input: output.args }),
    "tool.execute.after": (input, output) =>
      segno.endCall(call(input), { tool_response: { output: output.output, exitCode: output.metadata?.exit } }),
    event: async ({ event }) => {
      const { info = {}, part = {}, sessionID, error } = event.properties ?? {}
      switch (event.type) {
        case "session.created":
          await segno.begin(info.id, info.parentID)
          break
        case "message.updated":
          if (info.role === "assistant") assistants.add(info.id)
          break
        case "message.part.updated":
          if (part.type === "text" && assistants.has(part.messageID)) segno.answer(part.sessionID, part.text)
          // OpenCode calls no hook after a tool that failed.
          if (part.type === "tool" && part.state?.status === "error" && segno.isRunning(part.callID)) {
            await segno.endCall(call(part), { error: part.state.error })
          }
          break
        case "session.compacted":
          await segno.compact(sessionID)
          break
        case "session.error":
          if (error?.name === "MessageAbortedError") segno.end(sessionID, "Interrupt")
          break
        case "session.idle":
          assistants.clear()
          segno.end(sessionID, "Stop")
          break
      }
    },
  }
}

// setup is the plugin for OpenCode 2, which calls it once for each directory. It has no way to show a line to
// the user, so the model gets segno's lines only.
const setup = async (ctx) => {
  const segno = recorder(ctx.location.directory, () => {})
  const notes = new Map() // for the model, by session, until the turn ends
  const call = ({ sessionID, tool, id }) => ({ session: sessionID, tool, call: id })

  await ctx.session.hook("prompt", async ({ sessionID, messageID, prompt }) => {
    if (segno.isSubagent(sessionID)) return
    const text = await segno.prompt(sessionID, messageID, prompt?.text ?? "")
    if (text) notes.set(sessionID, text)
  })
  await ctx.session.hook("context", ({ sessionID, system }) => {
    if (notes.has(sessionID)) system?.push({ type: "text", text: notes.get(sessionID) })
  })
  await ctx.tool.hook("execute.before", async (event) => {
    await segno.beginCall({ ...call(event), input: event.input })
  })
  await ctx.tool.hook("execute.after", async (event) => {
    const { output, metadata } = event.result ?? {}
    const exitCode = metadata?.exit ?? output?.exit ?? (event.status === "error" ? 1 : undefined)
    await segno.endCall(call(event), { tool_response: { output: event.error ?? output, exitCode }, error: event.error })
  })

  const end = (session, name) => {
    notes.delete(session)
    segno.end(session, name)
  }
  const stop = new AbortController()
  const follow = async () => {
    for await (const { type, data = {} } of ctx.event.subscribe({ signal: stop.signal })) {
      switch (type) {
        case "session.created":
          await segno.begin(data.sessionID, data.parentID)
          break
        case "session.text.ended":
          segno.answer(data.sessionID, data.text)
          break
        case "session.compaction.ended":
          await segno.compact(data.sessionID)
          break
        case "session.execution.interrupted":
          end(data.sessionID, "Interrupt")
          break
        case "session.execution.succeeded":
        case "session.execution.failed":
          end(data.sessionID, "Stop")
          break
      }
    }
  }
  follow().catch(() => {}) // OpenCode has ended
  return () => stop.abort()
}

export default { id: "segno", server, setup }
