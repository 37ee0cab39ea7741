// Package export writes a thread, or one turn of it, in forms for other people and other
// programs: a page of HTML, Markdown, lines of JSON, and the formats ATIF, Agent Trace and OTLP.
//
// A [Reader] reads any [segno.Store]. [Reader.Open] selects the turns, and [Thread.Turns]
// yields them one by one, so that a thread of any length needs the memory of one turn. A
// [Format] writes them. Between the two is [Filter], which searches each turn for secrets
// before it is written.
//
// All content is hostile: prompts, answers, results, paths and names come from agents and tools.
// Each writer makes it inert for its own readers. docs/export.md describes the formats.
package export
