package history

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/printable"
)

// Change is one changed path in a result.
type Change struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"path_bytes,omitempty"` // base64, if the path is not valid UTF-8
	Sign      string `json:"sign"`                 // "+", "~", "-"
	Type      string `json:"type"`
	Merged    bool   `json:"merged,omitempty"` // in a move: the result keeps a later change, merged by lines
	// WhileCommand is set if the path changed while a command of the turn ran, by no tool that names it.
	WhileCommand bool `json:"while_command,omitempty"`
	// LinesAdded and LinesDeleted are the lines of a file that a planned move adds and deletes. Only a short plan has them.
	LinesAdded   int `json:"lines_added,omitempty"`
	LinesDeleted int `json:"lines_deleted,omitempty"`
	Pages        int `json:"pages,omitempty"` // for an attached database, the number of pages that differ
	// Tables are the tables of an attached database that differ.
	Tables []segno.TableChange `json:"tables,omitempty"`
	// Unread is the reason why the change of an attached database is not known: one of its states was not saved.
	Unread string `json:"unread,omitempty"`
}

// Name returns the path as the text output shows it.
func (c Change) Name() string {
	switch c.Type {
	case string(segno.EntityDir):
		return segno.QuotePath(c.Path + "/")
	case string(segno.EntityDatabase):
		return fmt.Sprintf("database %s: %s", segno.QuotePath(c.Path), c.size())
	}
	return segno.QuotePath(c.Path)
}

// maxTables is the number of tables of a database that the text names.
const maxTables = 6

// size describes how much of a database differs.
func (c Change) size() string {
	if c.Unread != "" {
		return printable.Inline(c.Unread)
	}
	size := printable.Plural(c.Pages, "page")
	if c.Pages == 0 && len(c.Tables) > 0 {
		size = printable.Plural(len(c.Tables), "table")
	}
	for i, t := range c.Tables {
		switch name := printable.Inline(t.Name); {
		case i == maxTables:
			return fmt.Sprintf("%s, and %d more", size, len(c.Tables)-i)
		case t.Before < 0:
			size += fmt.Sprintf(", %s new with %s", name, printable.Plural(int(t.After), "row"))
		case t.After < 0:
			size += fmt.Sprintf(", %s gone with %s", name, printable.Plural(int(t.Before), "row"))
		case t.Before == t.After:
			size += fmt.Sprintf(", %s changed with %s", name, printable.Plural(int(t.After), "row"))
		default:
			size += fmt.Sprintf(", %s from %d to %s", name, t.Before, printable.Plural(int(t.After), "row"))
		}
	}
	return size
}

// Signed describes changes from the point of view of their result: "+" for a new path, "-" for a
// deleted path, "~" for any other change.
func Signed(diff []segno.Change) []Change {
	out := make([]Change, len(diff))
	for i, x := range diff {
		out[i] = Change{Path: x.Path, PathBytes: segno.PathBytes(x.Path), Sign: "~", Type: string(x.To.Type), Merged: x.Merged}
		switch {
		case x.From.Type == segno.EntityNone:
			out[i].Sign = "+"
		case x.To.Type == segno.EntityNone:
			out[i].Sign, out[i].Type = "-", string(x.From.Type)
		}
		if name, ok := segno.DatabaseName(x.Path); ok {
			out[i].Path, out[i].PathBytes, out[i].Type = name, segno.PathBytes(name), string(segno.EntityDatabase)
		}
	}
	return out
}

// MarkUnnamed sets WhileCommand in the changes of paths, which changed while a command ran, by
// no tool that names them.
func MarkUnnamed(changes []Change, paths []string) {
	unnamed := make(map[string]bool, len(paths))
	for _, p := range paths {
		unnamed[p] = true
	}
	for i := range changes {
		changes[i].WhileCommand = unnamed[changes[i].Path] && changes[i].Type != string(segno.EntityDatabase)
	}
}

// PathsBytes returns the bytes of all paths if one of them is not valid UTF-8, else nil. JSON has
// them beside the paths; see [segno.PathBytes].
func PathsBytes(paths []string) (all [][]byte) {
	if !slices.ContainsFunc(paths, func(p string) bool { return !utf8.ValidString(p) }) {
		return nil
	}
	for _, p := range paths {
		all = append(all, []byte(p))
	}
	return all
}
