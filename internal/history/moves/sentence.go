package moves

import (
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/timeline"
)

// maxQuoted is the number of bytes of a prompt that a sentence quotes.
const maxQuoted = 60

// Sentence describes a plan in one sentence: what it moves over, how many files change, and which work of the user it
// meets. It names no path, so that it stays short for a plan of any size.
func Sentence(p *timeline.Plan, res Result) string {
	if c, ok := onePath(p, res); ok {
		text := present.path(c, p)
		if c.Sign != "+" {
			text += "; " + savedFirst
		}
		return text + "."
	}
	parts := append([]string{subject(p), present.files(res.Changes)}, yours(p, res)...)
	if p.Session != nil && p.Session.Leaf != "" {
		parts = append(parts, "the conversation moves too")
	}
	return upperFirst(strings.Join(parts, "; ")) + "."
}

// pointerSentence is Sentence for a plan that moves only the thread.
func pointerSentence(p *timeline.Plan) string {
	return upperFirst(subject(p)) + "; only the thread moves: its files are not on this machine."
}

// savedFirst is the part of a sentence about a move that replaces files of any author.
const savedFirst = "the present is saved first"

// Effect describes a plan beside a button that makes it: the turn that goes or returns, and what happens to the files.
func Effect(p *timeline.Plan, res Result) string {
	text := p.Args
	switch {
	case len(p.Turns) == 0:
	case p.Verb == segno.VerbRedo:
		text = "brings back " + turnNames(p)
	default:
		text = "removes " + turnNames(p)
	}
	if p.Workspace != "" {
		text += ": " + present.files(res.Changes)
	}
	if n := len(res.Conflicts); n > 0 {
		text += ", " + printable.Plural(n, "conflict")
	}
	return text
}

// Report describes a finished move in one sentence.
func Report(p *timeline.Plan, res Result) string {
	if c, ok := onePath(p, res); ok {
		return past.path(c, p) + "."
	}
	if p.Restore && p.Session == nil && strings.Contains(p.Args, " --files ") { // some paths
		return upperFirst(past.files(res.Changes)) + ", as they were at " + checkpointOf(p) + "."
	}
	done := "now at " + checkpointOf(p)
	switch {
	case p.Verb == segno.VerbOpUndo:
		done = "move undone"
	case p.Only:
		done = "undone only " + turnNames(p)
	case p.Verb == segno.VerbUndo:
		done = "undone " + turnNames(p)
	case p.Verb == segno.VerbRedo:
		done = "redone " + turnNames(p)
	case p.Restore && p.Session != nil:
		done = "the conversation is as it was at " + checkpointOf(p)
	case p.Restore:
		done = "took the files of " + checkpointOf(p)
	}
	text := upperFirst(done) + ": " + past.files(res.Changes)
	if n := len(res.Conflicts); n > 0 {
		text += "; " + printable.Plural(n, "file") + " with changes of yours left alone"
	}
	return text + "."
}

// subject is the part of a sentence that names what a plan moves over.
func subject(p *timeline.Plan) string {
	switch {
	case p.Finishes != "":
		return "overwrites the conflicts of the last " + string(p.Verb)
	case p.Verb == segno.VerbOpUndo:
		return "undoes an earlier move"
	case p.Only:
		return "undoes only " + turnNames(p) + ": newer turns and the conversation stay"
	case p.Restore && p.Verb == segno.VerbUndo:
		return "undoes the changes of " + turnNames(p) + " to some paths"
	case p.Verb == segno.VerbUndo:
		return "undoes " + turnNames(p)
	case p.Verb == segno.VerbRedo:
		return "redoes " + turnNames(p)
	case p.Restore && p.Session != nil:
		return "takes the conversation of " + checkpointOf(p)
	case p.Restore:
		return "takes the files of " + checkpointOf(p)
	}
	return "goes to " + checkpointOf(p)
}

// yours lists the parts of a sentence about work that is not of the turns: conflicts, merged files, protected paths,
// and files whose author is not known. A restore makes the files exactly as they were, so it may replace such work.
func yours(p *timeline.Plan, res Result) (parts []string) {
	merged, unnamed := 0, 0
	for _, c := range res.Changes {
		if c.Merged {
			merged++
		}
		if c.WhileCommand {
			unnamed++
		}
	}
	add := func(n int, one, many string) {
		if n > 0 {
			parts = append(parts, printable.Plural(n, "file")+" "+choose(n, one, many))
		}
	}
	add(len(res.Conflicts), "that changed since stays as it is", "that changed since stay as they are")
	if p.Only {
		add(merged, "keeps later lines", "keep later lines")
	} else {
		add(merged, "keeps your later lines", "keep your later lines")
	}
	add(unnamed, "changed while a command ran", "changed while a command ran")
	add(len(res.Kept), "is protected and stays", "are protected and stay")
	switch {
	case p.Verb == segno.VerbRestore && len(res.Changes) > 0:
		parts = append(parts, savedFirst)
	case len(parts) == 0 && len(res.Changes) > 0 && p.Verb != segno.VerbRestore:
		parts = append(parts, "nothing of yours is touched")
	}
	return parts
}

// turnNames quotes the prompt of the one turn of a plan, or counts several.
func turnNames(p *timeline.Plan) string {
	title := timeline.Title(p.Prompt)
	switch {
	case len(p.Turns) != 1:
		return printable.Plural(len(p.Turns), "turn")
	case title == "":
		return fmt.Sprintf("t%d", p.Turns[0])
	}
	if short := history.Cut(title, maxQuoted); short != title {
		title = short + "…"
	}
	return "“" + printable.Inline(title) + "”"
}

// checkpointOf names the checkpoint that a restore takes.
func checkpointOf(p *timeline.Plan) string {
	name, _, _ := strings.Cut(p.Args, " ")
	return name
}

// onePath returns the change of a plan that concerns exactly one path and no turn, such as a restore of a file.
func onePath(p *timeline.Plan, res Result) (history.Change, bool) {
	if !p.Restore || p.Verb != segno.VerbRestore || p.Session != nil || len(res.Changes) != 1 || len(res.Conflicts)+len(res.Kept) > 0 {
		return history.Change{}, false
	}
	return res.Changes[0], true
}

// tense has the forms of the verbs in descriptions of a move.
type tense struct{ back, backs, gone, goes, change, changes string }

var (
	present = tense{"come back", "comes back", "are deleted", "is deleted", "change", "changes"}
	past    = tense{"came back", "came back", "were deleted", "was deleted", "changed", "changed"}
)

// files counts the files that a move creates, deletes and changes. It ignores directories.
func (t tense) files(changes []history.Change) string {
	var n segno.Counts
	databases := 0
	for _, c := range changes {
		switch {
		case c.Type == string(segno.EntityDir):
		case c.Type == string(segno.EntityDatabase):
			databases++
		case c.Sign == "+":
			n.Added++
		case c.Sign == "-":
			n.Deleted++
		default:
			n.Modified++
		}
	}
	var parts []string
	add := func(n int, thing, one, many string) {
		if n > 0 {
			parts = append(parts, printable.Plural(n, thing)+" "+choose(n, one, many))
		}
	}
	add(n.Added, "file", t.backs, t.back)
	add(n.Deleted, "file", t.goes, t.gone)
	add(n.Modified, "file", t.changes, t.change)
	add(databases, "database", t.changes, t.change)
	if len(parts) == 0 {
		return "no file " + t.changes
	}
	return strings.Join(parts, ", ")
}

// path describes the change of the one path of a restore.
func (t tense) path(c history.Change, p *timeline.Plan) string {
	verb := t.changes
	switch c.Sign {
	case "+":
		verb = t.backs
	case "-":
		return c.Name() + " " + t.goes + ", as at " + checkpointOf(p)
	}
	return c.Name() + " " + verb + ", as it was at " + checkpointOf(p)
}

func choose(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// upperFirst makes the first letter of a sentence a capital.
func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
