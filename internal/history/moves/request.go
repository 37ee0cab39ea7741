package moves

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/timeline"
)

// The verbs of a [Request].
const (
	verbUndo    = "undo"
	verbRedo    = "redo"
	verbRestore = "restore"
	verbFork    = "fork"
	verbOpUndo  = "op-undo"
	verbPin     = "pin"
	verbUnpin   = "unpin"
	verbRename  = "rename"
	verbDelete  = "delete"
	verbDecide  = "decide"
)

// Request asks for a move of a thread. A field that does not belong to the verb is an error.
type Request struct {
	Verb   string         `json:"verb"`
	Thread segno.ThreadID `json:"thread,omitempty"`

	Turns int  `json:"turns,omitempty"` // undo, redo: the number of turns; 0 means 1
	Turn  int  `json:"turn,omitempty"`  // undo, redo: the last turn to move over, instead of Turns
	Only  bool `json:"only,omitempty"`  // undo: Turn alone, and not the newer turns; only files change
	Force bool `json:"force,omitempty"` // undo, redo, op-undo: overwrite conflicts
	// WhileRunning allows undo, redo, restore and op-undo although a turn is open, or another
	// program has a database open.
	WhileRunning bool `json:"while_running,omitempty"`

	To    segno.CommitID `json:"to,omitempty"`    // restore, fork, pin, unpin: the checkpoint; fork: "" is the head
	Scope timeline.Scope `json:"scope,omitempty"` // restore: tiers, "" is both; fork: "chat" is on the same files

	Paths     []string `json:"paths,omitempty"`      // undo, restore: only these, relative to the workspace
	PathBytes [][]byte `json:"path_bytes,omitempty"` // further paths that are not valid UTF-8

	Dir       string            `json:"dir,omitempty"`       // fork: absolute; "" is a directory beside the workspace
	Title     string            `json:"title,omitempty"`     // rename: the thread's title; fork: the new thread's
	Name      string            `json:"name,omitempty"`      // pin: "" is "pinned"; unpin: "" is all names
	Operation segno.OperationID `json:"operation,omitempty"` // op-undo: the operation; "" means the newest

	Interrupt string             `json:"interrupt,omitempty"` // decide: the question
	Decision  segno.DecisionKind `json:"decision,omitempty"`  // decide
	Message   string             `json:"message,omitempty"`   // reject: the reason; respond: the reply
	Input     json.RawMessage    `json:"input,omitempty"`     // edit: the new arguments
}

// fields returns the names of the fields that a verb accepts in addition to the thread. ok is false for an unknown
// verb.
func (r *Request) fields() (names string, ok bool) {
	switch r.Verb {
	case verbUndo:
		return "turns turn only force while_running paths", true
	case verbRedo:
		return "turns turn force while_running", true
	case verbRestore:
		return "to scope paths while_running", true
	case verbFork:
		return "to scope dir title", true
	case verbOpUndo:
		return "operation force while_running", true
	case verbPin, verbUnpin:
		return "to name", true
	case verbRename:
		return "title", true
	case verbDelete:
		return "", true
	case verbDecide:
		return "interrupt decision message input", true
	}
	return "", false
}

// The length limits of a thread's title and a pin's name, in bytes.
const maxTitle, maxName = 1000, 200

// check returns an error for a request that no thread could satisfy.
func (r *Request) check() error {
	accepted, ok := r.fields()
	if !ok {
		return r.invalid("unknown verb").WithHint("use undo, redo, restore, fork, op-undo, pin, unpin, rename, delete or decide")
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"turns", r.Turns != 0}, {"turn", r.Turn != 0}, {"only", r.Only}, {"force", r.Force}, {"while_running", r.WhileRunning}, {"to", r.To != ""}, {"scope", r.Scope != ""},
		{"paths", len(r.Paths)+len(r.PathBytes) > 0}, {"dir", r.Dir != ""}, {"title", r.Title != ""}, {"name", r.Name != ""},
		{"operation", r.Operation != ""}, {"interrupt", r.Interrupt != ""}, {"decision", r.Decision != ""},
		{"message", r.Message != ""}, {"input", r.Input != nil},
	} {
		if f.set && !strings.Contains(" "+accepted+" ", " "+f.name+" ") {
			return r.invalid("%s takes no %q", r.Verb, f.name)
		}
	}
	if err := r.checkTarget(); err != nil {
		return err
	}
	if err := r.checkTexts(); err != nil {
		return err
	}
	return r.checkPaths()
}

// checkTarget checks the fields that name the thread, the checkpoint and the tiers.
func (r *Request) checkTarget() error {
	needsTo := slices.Contains([]string{verbRestore, verbPin, verbUnpin}, r.Verb)
	isScope := slices.Contains([]timeline.Scope{"", timeline.ScopeBoth, timeline.ScopeChat}, r.Scope) || r.Scope == timeline.ScopeFiles && r.Verb == verbRestore
	switch {
	case r.Thread == "" && (r.To == "" || r.Verb != verbFork):
		return r.invalid("no thread")
	case r.Turns < 0 || r.Turn < 0 || r.Turns > 0 && r.Turn > 0:
		return r.invalid("turns and turn are positive, and exclude each other")
	case r.Only && r.Turn == 0:
		return r.invalid("only undoes the turn in \"turn\", and there is none")
	case needsTo && r.To == "":
		return r.invalid("no checkpoint in \"to\"")
	case !isScope:
		return r.invalid("unknown scope %q", r.Scope)
	}
	return nil
}

// checkTexts checks the words of the user.
func (r *Request) checkTexts() error {
	switch {
	case r.Verb == verbRename && strings.TrimSpace(r.Title) == "":
		return r.invalid("the title is empty")
	case !isLine(r.Title, maxTitle):
		return r.invalid("the title is longer than %d bytes, or not one line", maxTitle)
	case !isLine(r.Name, maxName):
		return r.invalid("the name is longer than %d bytes, or not one line", maxName)
	case r.Verb == verbPin && r.Name != "" && !history.IsPinName(r.Name):
		return r.invalid("invalid pin name: names such as t1, latest, @x and x- are reserved")
	case r.Verb == verbDecide && (r.Interrupt == "" || r.Decision == ""):
		return r.invalid("no interrupt or no decision")
	case !utf8.ValidString(r.Title + r.Name + r.Message + r.Dir):
		return r.invalid("the text is not UTF-8")
	}
	return nil
}

func isLine(text string, most int) bool {
	return len(text) <= most && !strings.ContainsFunc(text, unicode.IsControl)
}

// checkPaths checks that the paths are relative to the workspace and inside it.
func (r *Request) checkPaths() error {
	for _, p := range r.paths() {
		if p == "" || path.IsAbs(p) || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") || strings.Contains(p, "\x00") {
			return segno.Errorf(segno.KindInvalid, r.Verb, segno.QuotePath(p), "the path is not inside the workspace").
				WithHint("name paths as the checkpoint lists them")
		}
	}
	return nil
}

// paths returns Paths and PathBytes together.
func (r *Request) paths() []string {
	all := append([]string{}, r.Paths...)
	for _, p := range r.PathBytes {
		all = append(all, string(p))
	}
	return all
}

func (r *Request) invalid(format string, args ...any) *segno.Error {
	return segno.Errorf(segno.KindInvalid, "preview", "", format, args...)
}
