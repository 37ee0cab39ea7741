package failure

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/dalsegno/segno/internal/acp"
)

// Name is one face of one failure. An outcome has that face if everything that the
// row names is true of it; what a row leaves out may be anything.
type Row struct {
	Is Meaning

	// Agent is a part of the agent's name in lower case; "" is any agent. A row
	// holds for all versions: those between two that were tried are more likely to
	// be like them than not, and no face means two things.
	Agent string
	Seen  []string // the versions that showed it
	Read  []string // the versions in whose published code it was read

	Methods []string // nil is any
	Way     Way      // how the request ended

	// Of an error:
	Code   int      // 0 is any
	Key    string   // a key that its data has
	Values []string // one of which stands there; nil is any value

	// Text are words in lower case, one of which is in the message or a string of
	// the data of an error, or in the title or what was said of a result. "^" before
	// them is for the beginning.
	Text []string

	// Of a result:
	Stop     []string // stopReason
	Category []string
	System   bool // [Outcome.SystemError]
	Silent   bool // nothing was said and no tool was called
	Idle     bool // there was no update and no token in a fresh session
}

// Way is how a request ended.
type Way uint8

const (
	ByError Way = iota
	ByResult
	ByExit
)

// Rows returns the table in the order in which it is searched.
func Rows() []Row { return slices.Concat(told, said, ended, otherwise) }

// find returns the first row that is true of o, nil if none is.
func find(o Outcome) *Row {
	way := o.way()
	var texts []string
	switch way {
	case ByError:
		texts = errorTexts(o.Err)
	case ByResult:
		texts = []string{o.said(), clip(o.Title)}
	}
	for _, part := range [...][]Row{told, said, ended, otherwise} {
		for i := range part {
			if part[i].Way == way && part[i].isTrueOf(o, texts) {
				return &part[i]
			}
		}
	}
	return nil
}

func (o Outcome) way() Way {
	switch {
	case o.Exited:
		return ByExit
	case o.Err != nil:
		return ByError
	}
	return ByResult
}

func (r *Row) isTrueOf(o Outcome, texts []string) bool {
	switch {
	case !strings.Contains(strings.ToLower(o.Agent), r.Agent),
		!among(r.Methods, o.Method),
		!among(r.Stop, o.Stop),
		!among(r.Category, o.Category),
		r.Code != 0 && r.Code != o.Err.Code,
		r.Key != "" && !r.holds(o.Err.Data),
		r.System && !o.SystemError,
		r.Silent && (o.said() != "" || o.Tools > 0),
		r.Idle && (!o.Fresh || o.Updates > 0 || o.OutputTokens != 0):
		return false
	}
	return r.Text == nil || slices.ContainsFunc(texts, r.reads)
}

// among reports whether s is one of list; nil lists everything.
func among(list []string, s string) bool { return list == nil || slices.Contains(list, s) }

// holds reports whether data is an object with the row's key and value.
func (r *Row) holds(data json.RawMessage) bool {
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil {
		return false
	}
	raw, has := object[r.Key]
	if !has || string(raw) == "null" {
		return false
	}
	value := string(raw)
	_ = json.Unmarshal(raw, &value) // what is no string stands as it is written
	return among(r.Values, value)
}

func (r *Row) reads(text string) bool {
	for _, want := range r.Text {
		if start, anchored := strings.CutPrefix(want, "^"); anchored && strings.HasPrefix(text, start) || !anchored && strings.Contains(text, want) {
			return true
		}
	}
	return false
}

// What is looked at of an error: agents put their log behind it.
const (
	maxTexts = 64
	maxText  = 16 << 10
)

// errorTexts are the strings of an error in lower case: the message, and those
// anywhere in its data.
func errorTexts(e *acp.Error) []string {
	texts := []string{clip(e.Message)}
	var data any
	if json.Unmarshal(e.Data, &data) != nil {
		return texts
	}
	var walk func(v any)
	walk = func(v any) {
		if len(texts) == maxTexts {
			return
		}
		switch v := v.(type) {
		case string:
			texts = append(texts, clip(v))
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(data)
	return texts
}

func clip(s string) string { return strings.ToLower(s[:min(len(s), maxText)]) }
