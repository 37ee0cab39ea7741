// Package export writes a thread, or one turn of it, in formats for other people and programs: an
// HTML page, Markdown, JSON lines, ATIF, Agent Trace and OTLP.
//
// A [Reader] reads any [segno.Store]. [Reader.Open] selects the turns, and [Thread.Turns] yields
// them one by one, so a thread of any length needs only the memory of one turn. [Filter] searches
// each turn for secrets before [Write] writes it.
//
// All content is hostile: prompts, answers, results, paths and names come from agents and tools.
// Each writer escapes it so that it is harmless in the format. docs/export.md describes the
// formats.
package export
