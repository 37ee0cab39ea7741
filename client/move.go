package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/dalsegno/segno"
)

// Move asks for a move of a thread. Each verb has its own fields; the server refuses the fields of other verbs.
type Move struct {
	// Verb is undo, redo, restore, fork, op-undo, pin, unpin, rename, delete or decide.
	Verb   string         `json:"verb"`
	Thread segno.ThreadID `json:"thread,omitempty"`

	Turns int  `json:"turns,omitempty"` // undo, redo: how many turns; 0 is 1
	Turn  int  `json:"turn,omitempty"`  // undo, redo: the last turn to move over, instead of Turns
	Only  bool `json:"only,omitempty"`  // undo: Turn alone, and not the newer turns; only files change
	Force bool `json:"force,omitempty"` // undo, redo, op-undo: overwrite conflicts
	// WhileRunning allows undo, redo, restore and op-undo although a turn is open, or another
	// program has a database open.
	WhileRunning bool `json:"while_running,omitempty"`

	To    segno.CommitID `json:"to,omitempty"`    // restore, fork, pin, unpin: the checkpoint; for a fork, "" is the head
	Scope string         `json:"scope,omitempty"` // restore: both (""), chat or files; fork: chat makes a thread on the same files

	Paths     []string `json:"paths,omitempty"`      // undo, restore: only these, relative to the workspace
	PathBytes [][]byte `json:"path_bytes,omitempty"` // further paths, those that are not UTF-8

	Dir       string            `json:"dir,omitempty"`       // fork: the new directory, absolute; "" is one beside the workspace
	Title     string            `json:"title,omitempty"`     // rename: of the thread; fork: of the new thread
	Name      string            `json:"name,omitempty"`      // pin: the name, "" is "pinned"; unpin: "" is all names
	Operation segno.OperationID `json:"operation,omitempty"` // op-undo: which; "" is the newest

	Interrupt string             `json:"interrupt,omitempty"` // decide: the question
	Decision  segno.DecisionKind `json:"decision,omitempty"`  // decide
	Message   string             `json:"message,omitempty"`   // reject: the reason; respond: the reply
	Input     json.RawMessage    `json:"input,omitempty"`     // edit: the new arguments
}

// Change is a path that a move writes.
type Change struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"path_bytes,omitempty"` // if the path is not UTF-8
	Sign      string `json:"sign"`                 // "+", "~", "-"
	Type      string `json:"type"`
	Merged    bool   `json:"merged,omitempty"` // it keeps a change made since, merged by lines
	// WhileCommand is set if a turn changed the path while a command ran, by no tool that names the path.
	WhileCommand bool `json:"while_command,omitempty"`
	// LinesAdded and LinesDeleted are the lines of a file that a planned move adds and deletes. Only a short plan has them.
	LinesAdded   int `json:"lines_added,omitempty"`
	LinesDeleted int `json:"lines_deleted,omitempty"`
	Pages        int `json:"pages,omitempty"` // of an SQLite database: how many differ
	// Tables are the tables of an attached database that differ.
	Tables []segno.TableChange `json:"tables,omitempty"`
	// Unread is why the change of an attached database is not known: one of its states was not saved.
	Unread string `json:"unread,omitempty"`
}

// Unwritten is a path that a move does not change.
type Unwritten struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"path_bytes,omitempty"` // if the path is not UTF-8
	Why       string `json:"why"`
	Diff      string `json:"diff,omitempty"` // of a conflict: from the present content to the content that force would write
}

// Preview is the plan of a move that has not been made.
type Preview struct {
	ID      string         `json:"id"` // for [Store.Apply]
	Verb    string         `json:"verb"`
	Thread  segno.ThreadID `json:"thread"`
	Title   string         `json:"title"`   // the first line of Summary
	Summary []string       `json:"summary"` // the plan as the command line shows it
	// Sentence describes the plan in one sentence, and Effect in a few words. Both are "" for a move that changes no files.
	Sentence string         `json:"sentence"`
	Effect   string         `json:"effect"`
	Turns    []int          `json:"turns"`
	Only     bool           `json:"only,omitempty"` // Turns are undone alone
	Steps    []Change       `json:"steps"`
	Landing  segno.CommitID `json:"landing,omitempty"`
	Tip      segno.CommitID `json:"tip,omitempty"`
	Session  *Session       `json:"session"`     // the session to which the conversation moves, or nil
	Run      []string       `json:"run_preview"` // the command that continues it; … is the session's id
	Dir      string         `json:"dir,omitempty"`
	Git      string         `json:"git,omitempty"` // the command that moves git's HEAD, if HEAD was at another commit then

	Conflicts  []Unwritten `json:"conflicts"`
	Kept       []Unwritten `json:"kept"`
	Forced     []Change    `json:"forced"`      // the writes that force makes instead of conflicts
	NeedsForce bool        `json:"needs_force"` // there are conflicts that force overwrites
	Final      bool        `json:"final"`       // the move cannot be undone
	Totals     Totals      `json:"totals"`
	Expires    time.Time   `json:"expires"`
}

// Totals are how many paths the lists of a preview or an outcome would have without their limits.
type Totals struct {
	Steps     int `json:"steps"`
	Conflicts int `json:"conflicts"`
	Kept      int `json:"kept"`
	Forced    int `json:"forced"`
}

// Session is the session that a conversation moves to.
type Session struct {
	Agent   string          `json:"agent"`
	Session segno.SessionID `json:"session"`
	Dir     string          `json:"dir,omitempty"`
}

// Outcome is the result of a move.
type Outcome struct {
	Operation segno.OperationID `json:"operation"` // "" if the log has none
	Verb      string            `json:"verb"`
	Thread    segno.ThreadID    `json:"thread"`
	Head      segno.CommitID    `json:"head"`
	Tip       segno.CommitID    `json:"tip"`
	Revision  int64             `json:"revision"` // of the thread
	Files     int               `json:"files"`    // paths written
	Totals    Totals            `json:"totals"`
	Changes   []Change          `json:"changes"`
	Conflicts []Unwritten       `json:"conflicts"`
	Kept      []Unwritten       `json:"kept"`
	Sentence  string            `json:"sentence"`      // what the move did, or ""
	Run       []string          `json:"run"`           // the command that continues the conversation
	Dir       string            `json:"dir,omitempty"` // where to run it
	Chat      string            `json:"chat"`          // why the conversation could not move, or ""
	Fork      *Fork             `json:"fork"`
	Forgot    segno.ThreadID    `json:"forgot,omitempty"` // the thread of a fork that an op undo forgot
	Notice    string            `json:"notice"`           // what else the user should know
	Undo      *Move             `json:"undo"`             // the move that undoes it, or nil
}

// Fork is the thread that a fork made.
type Fork struct {
	Thread segno.ThreadID `json:"thread"`
	Dir    string         `json:"dir"`
}

// The paths of requests that may take the server long.
const (
	previewsPath = "/previews"
	movesPath    = "/moves"
)

// Preview works out a move. The server keeps the plan for some minutes.
func (s *Store) Preview(ctx context.Context, m Move) (*Preview, error) {
	p := new(Preview)
	if err := s.call(ctx, "preview", m.Verb, http.MethodPost, previewsPath, nil, m, p); err != nil {
		return nil, err
	}
	return p, nil
}

// Apply makes a previewed move. If force is set, it also overwrites the conflicts. A second call with the
// same key returns the same answer, so a caller that did not receive the answer can repeat the call. The
// error is a [segno.KindConflict] if the plan is out of date or the preview was applied under another
// key. In these cases nothing was moved.
func (s *Store) Apply(ctx context.Context, preview, key string, force bool) (*Outcome, error) {
	body := struct {
		Preview string `json:"preview"`
		Force   bool   `json:"force,omitempty"`
	}{preview, force}
	o := new(Outcome)
	if err := s.call(ctx, "move", preview, http.MethodPost, movesPath, nil, body, o, "Idempotency-Key", key, "Segno-Actor", segno.ActorGo); err != nil {
		return nil, err
	}
	return o, nil
}
