package claude

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
)

// kind is the type of a record. Types that do not matter to the conversation share kindOther.
type kind uint8

const (
	kindOther kind = iota // not in the conversation
	kindUser
	kindAssistant
	kindAttachment
	kindSystem
	kindProgress   // written by old versions: in the chain of parents, but skipped by the agent
	kindLastPrompt // points at the head
)

// isMessage reports whether records of the kind are words of the user or the agent.
func (k kind) isMessage() bool { return k == kindUser || k == kindAssistant }

// inConversation reports whether records of the kind make up the conversation.
func (k kind) inConversation() bool { return k >= kindUser && k <= kindSystem }

// kinds maps the type of a record to its kind.
var kinds = map[string]kind{"user": kindUser, "assistant": kindAssistant, "attachment": kindAttachment, "system": kindSystem,
	"progress": kindProgress, "last-prompt": kindLastPrompt}

// record is one line, of which only the top-level keys are decoded. Byte slices point into
// the line. They are the undecoded text between quotes, or a whole undecoded value.
type record struct {
	line      []byte
	kind      kind
	typ       []byte
	subtype   []byte
	uuid      []byte
	parent    []byte // nil for null
	logical   []byte // the record before a compaction
	timestamp []byte
	promptID  []byte
	version   []byte
	cwd       []byte

	leaf       []byte // whole values
	message    []byte
	forkedFrom []byte

	isSidechain bool
	isMeta      bool
	isSummary   bool // the summary of a compaction
	isExplicit  bool
	isSubmitted bool // has a permission mode, as every prompt that a user submits

	sessions []jsonscan.Span // the texts of sessionId values
}

// syntaxError is the offset at which a line is not valid JSON.
type syntaxError int

func (e syntaxError) Error() string { return fmt.Sprintf("not JSON from byte %d on", int(e)) }

// parse reads a line into r. The slices of r then point into line. The line may end
// in a newline and begin with a byte order mark. After an error, r has only the line.
func (r *record) parse(line []byte) error {
	*r = record{line: line, sessions: r.sessions[:0]}
	end, ok := jsonscan.Members(line, jsonscan.SkipSpace(line, skipBOM(line)), func(key []byte, value jsonscan.Span) {
		r.set(key, value)
	})
	if ok {
		end = jsonscan.SkipSpace(line, end)
	}
	if !ok || end < len(line) {
		*r = record{line: line, sessions: r.sessions[:0]}
		return syntaxError(end)
	}
	r.kind = kinds[string(r.typ)]
	return nil
}

// textFields maps a JSON key to the field of a record that has the text of the key's string.
var textFields = map[string]func(r *record) *[]byte{
	"type":              func(r *record) *[]byte { return &r.typ },
	"subtype":           func(r *record) *[]byte { return &r.subtype },
	"uuid":              func(r *record) *[]byte { return &r.uuid },
	"parentUuid":        func(r *record) *[]byte { return &r.parent },
	"logicalParentUuid": func(r *record) *[]byte { return &r.logical },
	"timestamp":         func(r *record) *[]byte { return &r.timestamp },
	"promptId":          func(r *record) *[]byte { return &r.promptID },
	"version":           func(r *record) *[]byte { return &r.version },
	"cwd":               func(r *record) *[]byte { return &r.cwd },
	"relocatedCwd":      func(r *record) *[]byte { return &r.cwd },
}

// set stores a value if its key belongs to a field of record. If a key occurs several times,
// the last value counts.
func (r *record) set(key []byte, at jsonscan.Span) {
	value := at.Of(r.line)
	if field, ok := textFields[string(key)]; ok {
		*field(r) = jsonscan.RawText(value)
		return
	}
	isTrue := string(value) == "true"
	switch string(key) {
	case "leafUuid":
		r.leaf = value
	case "message":
		r.message = value
	case "forkedFrom":
		r.forkedFrom = value
	case "isSidechain":
		r.isSidechain = isTrue
	case "isMeta":
		r.isMeta = isTrue
	case "isCompactSummary":
		r.isSummary = isTrue
	case "explicit":
		r.isExplicit = isTrue
	case "permissionMode":
		r.isSubmitted = true
	case "sessionId":
		if value[0] == '"' {
			r.sessions = append(r.sessions, jsonscan.Span{From: at.From + 1, To: at.To - 1})
		}
	}
}

// field returns the value of any top-level key, or nil if there is none.
func (r *record) field(name string) []byte { return field(r.line[skipBOM(r.line):], name) }

// isBoundary reports whether a compaction begins at r.
func (r *record) isBoundary() bool {
	return r.kind == kindSystem && string(r.subtype) == "compact_boundary"
}

// isHousekeeping reports whether r has no effect on the conversation, and the agent never
// sends it to the model.
func (r *record) isHousekeeping() bool {
	return r.kind == kindSystem && (string(r.subtype) == "turn_duration" || string(r.subtype) == "stop_hook_summary")
}

// isQueued reports whether r is a prompt that waited in the agent's queue and began a turn.
func (r *record) isQueued() bool {
	return r.kind == kindUser && r.isSubmitted && string(r.field("promptSource")) == `"queued"`
}

// isContinuation reports whether r is a prompt that the agent wrote itself.
func (r *record) isContinuation() bool {
	return r.kind == kindUser && !r.isSidechain && string(field(r.field("origin"), "kind")) == `"auto-continuation"`
}

// time returns the record's time in milliseconds.
func (r *record) time() (int64, bool) {
	t, err := time.Parse(time.RFC3339Nano, string(r.timestamp))
	return t.UnixMilli(), err == nil
}

// writeAs writes the record as a record of another session. It replaces every top-level
// sessionId, and keeps every other byte. A line that is not a record has no sessionId.
func (r *record) writeAs(w io.Writer, session segno.SessionID) error {
	at := 0
	for _, id := range r.sessions {
		if _, err := w.Write(r.line[at:id.From]); err != nil {
			return err
		}
		if _, err := io.WriteString(w, string(session)); err != nil {
			return err
		}
		at = id.To
	}
	_, err := w.Write(r.line[at:])
	return err
}

func skipBOM(line []byte) int {
	if bytes.HasPrefix(line, []byte("\xef\xbb\xbf")) {
		return 3
	}
	return 0
}

// isBlank reports whether a line has only white space.
func isBlank(b []byte) bool { return jsonscan.SkipSpace(b, skipBOM(b)) == len(b) }

// field returns the value of an object's key, or nil if the key is missing or obj is not an
// object. obj must be well-formed JSON.
func field(obj []byte, name string) []byte {
	return jsonscan.FindInValid(obj, jsonscan.Span{To: len(obj)}, name).Of(obj)
}

// textOf returns the text blocks of a message's content, joined by newlines.
func textOf(content []byte) string {
	if words := jsonscan.RawText(content); words != nil {
		return jsonscan.Unescape(words)
	}
	var parts []string
	jsonscan.ElementsOfValid(content, 0, func(at jsonscan.Span) {
		if block := at.Of(content); string(field(block, "type")) == `"text"` {
			parts = append(parts, jsonscan.Text(field(block, "text")))
		}
	})
	return strings.Join(parts, "\n")
}

// hasToolResult reports whether the content of a message contains the result of a tool.
func hasToolResult(content []byte) (found bool) {
	jsonscan.ElementsOfValid(content, 0, func(at jsonscan.Span) {
		found = found || string(field(at.Of(content), "type")) == `"tool_result"`
	})
	return found
}

// turnPart is the content of a record on which the division into turns depends.
type turnPart struct {
	role   role
	text   string // the text of a prompt, as the user typed it
	key    string // the agent's id of the prompt
	source string // the record's uuid in the session it was copied from
}

// role is the function of a record in a turn.
type role uint8

const (
	roleNone    role = iota
	rolePrompt       // begins a turn
	roleCommand      // a slash command: begins a turn if the agent answers it
	roleReply        // the agent's own words
	roleNotice       // words that the program wrote as the agent's: an error, "No response requested."
)

// turnPartOf returns the turnPart of r, or nil if the division into turns does not depend on r.
func turnPartOf(r *record) *turnPart {
	out := &turnPart{key: jsonscan.Unescape(r.promptID), source: jsonscan.Text(field(r.forkedFrom, "messageUuid"))}
	switch {
	case r.isSidechain:
	case r.kind == kindAssistant:
		out.role = roleReply
		if string(field(r.message, "model")) == `"<synthetic>"` {
			out.role = roleNotice
		}
	case r.kind == kindUser && !r.isMeta && !r.isSummary:
		out.role, out.text = readPrompt(r)
	}
	if *out == (turnPart{}) {
		return nil
	}
	return out
}

// readPrompt distinguishes a prompt from the other records that the agent writes in the
// user's name. These are tool results, the output of commands, notes about an interruption,
// and the report of a background task, which belongs to the turn that started the task.
func readPrompt(r *record) (role, string) {
	content := field(r.message, "content")
	if hasToolResult(content) {
		return roleNone, ""
	}
	words := textOf(content)
	for _, prefix := range []string{interruptMark, "<local-command-", "<bash-stdout>", "<bash-stderr>", "<task-notification>"} {
		if strings.HasPrefix(words, prefix) {
			return roleNone, ""
		}
	}
	if beginsWithTag(words) && !r.isSubmitted {
		return roleCommand, typedCommand(words)
	}
	return rolePrompt, words
}

// beginsWithTag reports whether words begin with a tag, as the records of commands do.
func beginsWithTag(words string) bool {
	words = strings.TrimLeft(words, " \t\r\n")
	return len(words) > 1 && words[0] == '<' && words[1] >= 'a' && words[1] <= 'z'
}

// typedCommand turns the tags of a slash command into the text that the user typed.
func typedCommand(words string) string {
	name := element(words, "command-name")
	if name == "" {
		return words
	}
	return strings.TrimSpace(name + " " + element(words, "command-args"))
}

// element returns the text inside the first element with a tag.
func element(words, tag string) string {
	_, after, _ := strings.Cut(words, "<"+tag+">")
	inside, _, found := strings.Cut(after, "</"+tag+">")
	if !found {
		return ""
	}
	return strings.TrimSpace(inside)
}
