// Package gitai makes and reads the notes of git-ai, version authorship/3.0.0 (git-ai-project/git-ai,
// specs/git_ai_standard_v3.0.0.md). Such a note, in refs/notes/ai, names the sessions of agents that wrote lines of a commit.
package gitai

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

const (
	// Ref is the reference with the notes.
	Ref    = "refs/notes/ai"
	schema = "authorship/3.0.0"
)

// Note is the note of a commit.
type Note struct {
	Files []File
	Metadata
}

// File has the attestations of a file. A later one has precedence.
type File struct {
	Path    string
	Entries []Entry
}

// Entry attests that the author with a key wrote lines.
type Entry struct {
	Key    string
	Ranges []Range
}

// Range is a range of lines. It includes both ends, which count from 1.
type Range struct{ From, To int }

// Metadata is the JSON below the attestations.
type Metadata struct {
	Schema   string             `json:"schema_version"`
	Base     string             `json:"base_commit_sha"`
	Prompts  map[string]Session `json:"prompts"` // of earlier versions of git-ai
	Sessions map[string]Session `json:"sessions,omitempty"`
}

// Session is a session of an agent.
type Session struct {
	Agent Agent `json:"agent_id"`
}

// Agent identifies a session by the names of its agent.
type Agent struct {
	Tool  string `json:"tool"`
	ID    string `json:"id"`
	Model string `json:"model"`
}

const keyDigits = 14

func key(prefix, value string) string {
	sum := sha256.Sum256([]byte(value))
	return prefix + hex.EncodeToString(sum[:])[:keyDigits]
}

// SessionKey returns the key of a session.
func SessionKey(tool, id string) string { return key("s_", tool+":"+id) }

// traceKey returns the key of one edit. git-ai draws it at random; here a checkpoint always has the same one.
func traceKey(id segno.CommitID) string { return key("t_", "segno:"+string(id)) }

// add adds a line, which comes after the earlier ones of the file.
func (f *File) add(key string, line int) {
	i := slices.IndexFunc(f.Entries, func(e Entry) bool { return e.Key == key })
	if i < 0 {
		i = len(f.Entries)
		f.Entries = append(f.Entries, Entry{Key: key})
	}
	e := &f.Entries[i]
	if last := len(e.Ranges) - 1; last >= 0 && e.Ranges[last].To == line-1 {
		e.Ranges[last].To = line
	} else {
		e.Ranges = append(e.Ranges, Range{line, line})
	}
}

// isWritable reports whether the format can have a path. It has no escapes.
func isWritable(path string) bool {
	return path != "---" && utf8.ValidString(path) && !strings.Contains(path, `"`) && !strings.ContainsFunc(path, unicode.IsControl)
}

// Encode returns the text of the note.
func (n *Note) Encode() ([]byte, error) {
	var b bytes.Buffer
	for _, f := range n.Files {
		name := f.Path
		if strings.ContainsFunc(name, unicode.IsSpace) {
			name = `"` + name + `"`
		}
		fmt.Fprintln(&b, name)
		for _, e := range f.Entries {
			var ranges []string
			for _, r := range e.Ranges {
				text := strconv.Itoa(r.From)
				if r.To > r.From {
					text += "-" + strconv.Itoa(r.To)
				}
				ranges = append(ranges, text)
			}
			fmt.Fprintf(&b, "  %s %s\n", e.Key, strings.Join(ranges, ","))
		}
	}
	b.WriteString("---\n")
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(n.Metadata)
	return b.Bytes(), err
}

// Parse reads the text of a note. The error has [segno.KindCorrupt] if it is not one.
func Parse(text []byte) (*Note, error) {
	head, metadata, ok := bytes.Cut(append([]byte("\n"), text...), []byte("\n---\n"))
	if !ok {
		return nil, errNote("it has no line ---")
	}
	n := &Note{}
	if err := json.Unmarshal(metadata, &n.Metadata); err != nil {
		return nil, segno.NewError(segno.KindCorrupt, "read note of git-ai", "", err)
	}
	if n.Schema != schema {
		return nil, segno.Errorf(segno.KindNewer, "read note of git-ai", "", "its schema is %q, not %s", n.Schema, schema)
	}
	for line := range strings.SplitSeq(string(head), "\n") {
		line = strings.TrimRight(line, " \t\r")
		entry, isEntry := strings.CutPrefix(line, "  ")
		switch last := len(n.Files) - 1; {
		case line == "":
		case !isEntry:
			if len(line) > 1 && line[0] == '"' && line[len(line)-1] == '"' {
				line = line[1 : len(line)-1]
			}
			n.Files = append(n.Files, File{Path: line})
		case last < 0:
			return nil, errNote("it has an attestation without a file")
		default:
			e, err := parseEntry(entry)
			if err != nil {
				return nil, err
			}
			n.Files[last].Entries = append(n.Files[last].Entries, e)
		}
	}
	return n, nil
}

func errNote(why string) error {
	return segno.Errorf(segno.KindCorrupt, "read note of git-ai", "", "%s", why)
}

func parseEntry(text string) (e Entry, err error) {
	var ranges string
	e.Key, ranges, _ = strings.Cut(text, " ")
	for part := range strings.SplitSeq(ranges, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, errFrom := strconv.ParseUint(from, 10, 31)
		b, errTo := strconv.ParseUint(to, 10, 31)
		if errFrom != nil || errTo != nil || a < 1 || b < a {
			return e, errNote(fmt.Sprintf("%q is not a range of lines", part))
		}
		e.Ranges = append(e.Ranges, Range{int(a), int(b)})
	}
	return e, nil
}

// KeyAt returns the key that the note attests for a line of a file, or "".
func (n *Note) KeyAt(path string, line int) (key string) {
	for _, f := range n.Files {
		if f.Path != path {
			continue
		}
		for _, e := range f.Entries {
			if slices.ContainsFunc(e.Ranges, func(r Range) bool { return r.From <= line && line <= r.To }) {
				key = e.Key
			}
		}
	}
	return key
}

// AgentOf returns the agent of a key. It is not known for a person's key.
func (n *Note) AgentOf(key string) (a Agent, ok bool) {
	session, _, _ := strings.Cut(key, "::")
	s, ok := n.Sessions[session]
	if !ok {
		s, ok = n.Prompts[key]
	}
	return s.Agent, ok
}

// Agree reports whether a key of a note means the same author as a session's key, or as "" for an author that is not an agent.
// A key without a prefix is one of an earlier version of git-ai.
func Agree(noted, session string) bool {
	if session == "" || noted == "" || strings.HasPrefix(noted, "h_") {
		return session == "" && (noted == "" || strings.HasPrefix(noted, "h_"))
	}
	of, _, isNew := strings.Cut(noted, "::")
	digits := session[len("s_"):]
	return of == session || !isNew && len(noted) >= 7 && (strings.HasPrefix(noted, digits) || strings.HasPrefix(digits, noted))
}
