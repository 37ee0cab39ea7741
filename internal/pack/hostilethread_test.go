package pack_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/pack"
)

// parts are the files of a thread in an archive, to be forged.
type parts struct {
	t     testing.TB
	files map[string]string
}

// soundParts returns the parts of a valid thread of two commits with one file and a session.
func soundParts(t *testing.T) *parts {
	t.Helper()
	f := newFixture(t)
	f.write(f.project, "d/a", "one\n")
	f.say("alpha")
	f.checkpoint("t", nil)
	f.write(f.project, "d/a", "two\n")
	f.say("beta")
	f.checkpoint("t", nil)
	state, cleanup, err := (&pack.Packer{Store: f.store, Temp: t.TempDir()}).ThreadState(t.Context(), "t", pack.Options{})
	must(t, err)
	p := &parts{t, map[string]string{}}
	for _, file := range state.Agents[0].Thread {
		in, err := file.Open()
		must(t, err)
		data, err := io.ReadAll(in)
		must(t, errors.Join(err, in.Close()))
		p.files[file.Path] = string(data)
	}
	must(t, cleanup())
	return p
}

func (p *parts) clone(t testing.TB) *parts { return &parts{t, maps.Clone(p.files)} }

// edit replaces text in a file, which must contain it.
func (p *parts) edit(name, old, replacement string) {
	p.t.Helper()
	if !strings.Contains(p.files[name], old) {
		p.t.Fatalf("%s has no %q:\n%s", name, old, p.files[name])
	}
	p.files[name] = strings.Replace(p.files[name], old, replacement, 1)
}

func (p *parts) lines() []string { return strings.SplitAfter(p.files["commits.jsonl"], "\n")[:2] }

// id returns the id of the commit on a line.
func (p *parts) id(line int) string {
	var n struct{ ID string }
	must(p.t, json.Unmarshal([]byte(p.lines()[line]), &n))
	return n.ID
}

// tree returns the name of the tree of the commit on a line.
func (p *parts) tree(line int) string {
	var n struct{ Checkpoint segno.Checkpoint }
	must(p.t, json.Unmarshal([]byte(p.lines()[line]), &n))
	return n.Checkpoint.Workspace.Tree.String()
}

// put adds an object and returns its name.
func (p *parts) put(data string) string {
	name := segno.HashOf([]byte(data)).String()
	p.files["objects/"+name[:2]+"/"+name] = data
	return name
}

// root gives the second commit another tree.
func (p *parts) root(object string) {
	p.edit("commits.jsonl", p.tree(1), p.put(object))
}

// sidecar gives the session of the first commit a file.
func (p *parts) sidecar(name string) {
	content := "touch /tmp/x\n"
	list := p.put(fmt.Sprintf("segno-sidecars 1\n600 %d 1 blob %s %q\n", len(content), p.put(content), name))
	p.edit("commits.jsonl", `,"version":"2.1.197"`, `,"sidecars":"`+list+`","version":"2.1.197"`)
}

// hideMissingLog lets the log of the second commit continue a log that the archive lacks, and removes the part of the transcript that
// the log lists. The log is also the state of the first commit, so a reader finds it there first.
func (p *parts) hideMissingLog() {
	log := regexp.MustCompile(`"log":"([0-9a-f]{64})"`)
	first, second := log.FindStringSubmatch(p.lines()[0])[1], log.FindStringSubmatch(p.lines()[1])[1]
	name := "objects/" + second[:2] + "/" + second
	p.edit(name, "prev "+first, "prev "+segno.HashOf([]byte("missing")).String())
	chunk := regexp.MustCompile(`(?m)^chunk ([0-9a-f]{64})`).FindStringSubmatch(p.files[name])[1]
	delete(p.files, "objects/"+chunk[:2]+"/"+chunk)
	forged := p.put(p.files[name])
	delete(p.files, name)
	p.edit("commits.jsonl", second, forged)
	type commit struct {
		ID         segno.CommitID    `json:"id"`
		Parent     segno.CommitID    `json:"parent,omitempty"`
		Checkpoint *segno.Checkpoint `json:"checkpoint,omitempty"`
		Entries    json.RawMessage   `json:"entries,omitempty"`
	}
	var c commit
	must(p.t, json.Unmarshal([]byte(p.lines()[0]), &c))
	state, err := segno.ParseHash(forged)
	must(p.t, err)
	c.Checkpoint.State = &segno.Document{Type: "x/1", Data: state}
	line, err := json.Marshal(c)
	must(p.t, err)
	p.edit("commits.jsonl", p.lines()[0], string(line)+"\n")
}

// write makes an archive of the parts.
func (p *parts) write() *archive.Reader {
	p.t.Helper()
	a := archive.AgentState{Info: archive.AgentInfo{Name: "claude", Backend: "claude"}}
	for name, data := range p.files {
		a.Thread = append(a.Thread, file(name, data))
	}
	name := filepath.Join(p.t.TempDir(), "hostile.ckpt")
	_, err := archive.Write(p.t.Context(), name, archive.State{Agents: []archive.AgentState{a}}, archive.WriteOptions{})
	must(p.t, err)
	r, err := archive.Open(name)
	must(p.t, err)
	p.t.Cleanup(func() { r.Close() })
	return r
}

func TestHostileThreads(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	raw := func(name string) string {
		h, err := segno.ParseHash(name)
		must(t, err)
		return string(h[:])
	}
	const treeHead = "segno tree 1\n"
	sound, m := soundParts(t), newMachine(t)
	dir := filepath.Join(m.dir, "in")
	fileEntry := func(p *parts, kind, name string, mode ...byte) string {
		content := p.put("x")
		return kind + string(rune(len(name))) + name + string(append(mode, 1)) + raw(content) + "\x00"
	}
	for name, forge := range map[string]func(p *parts){
		"no thread.json":       func(p *parts) { delete(p.files, "thread.json") },
		"no commits":           func(p *parts) { p.files["commits.jsonl"] = "" },
		"another file":         func(p *parts) { p.files["notes.txt"] = "" },
		"the first is missing": func(p *parts) { p.files["commits.jsonl"] = p.lines()[1] },
		"the order":            func(p *parts) { p.files["commits.jsonl"] = p.lines()[1] + p.lines()[0] },
		"twice":                func(p *parts) { p.files["commits.jsonl"] += p.lines()[1] },
		"two roots":            func(p *parts) { p.edit("commits.jsonl", `"parent":"`+p.id(0)+`",`, ``) },
		"its own parent":       func(p *parts) { p.edit("commits.jsonl", `"parent":"`+p.id(0), `"parent":"`+p.id(1)) },
		"a circle": func(p *parts) {
			p.edit("commits.jsonl", `{"id":"`+p.id(0)+`",`, `{"id":"`+p.id(0)+`","parent":"`+p.id(1)+`",`)
		},
		"no such parent": func(p *parts) { p.edit("commits.jsonl", `"parent":"`+p.id(0), `"parent":"../x`) },
		"an empty id":    func(p *parts) { p.edit("commits.jsonl", p.id(0), "") },
		"a long id": func(p *parts) {
			p.files["commits.jsonl"] = strings.ReplaceAll(p.files["commits.jsonl"], p.id(0), strings.Repeat("x", 2000))
		},
		"the id of itself":        func(p *parts) { p.files["commits.jsonl"] = strings.ReplaceAll(p.files["commits.jsonl"], p.id(0), ".") },
		"white space":             func(p *parts) { p.edit("commits.jsonl", `{"id"`, `{ "id"`) },
		"an unknown field":        func(p *parts) { p.edit("commits.jsonl", `{"id"`, `{"x":1,"id"`) },
		"a field twice":           func(p *parts) { p.edit("commits.jsonl", `{"id"`, `{"id":"x","id"`) },
		"another case":            func(p *parts) { p.edit("commits.jsonl", `{"id"`, `{"ID"`) },
		"cut off":                 func(p *parts) { p.files["commits.jsonl"] = strings.TrimSuffix(p.files["commits.jsonl"], "\n") },
		"an empty line":           func(p *parts) { p.files["commits.jsonl"] += "\n" },
		"not JSON":                func(p *parts) { p.files["commits.jsonl"] += "\x00\n" },
		"nothing in it":           func(p *parts) { p.files["commits.jsonl"] += `{"id":"x","parent":"` + p.id(1) + `"}` + "\n" },
		"an unknown kind":         func(p *parts) { p.edit("commits.jsonl", `"kind":"turn"`, `"kind":"own"`) },
		"a negative turn":         func(p *parts) { p.edit("commits.jsonl", `"turn":1`, `"turn":-1`) },
		"a huge turn":             func(p *parts) { p.edit("commits.jsonl", `"turn":1`, `"turn":9223372036854775807`) },
		"a workspace":             func(p *parts) { p.edit("commits.jsonl", `"workspace":"",`, `"workspace":"w",`) },
		"a thread":                func(p *parts) { p.edit("commits.jsonl", `"thread":"",`, `"thread":"other",`) },
		"a path of a transcript":  func(p *parts) { p.edit("commits.jsonl", `"path":""`, `"path":"/etc/passwd"`) },
		"another agent":           func(p *parts) { p.edit("commits.jsonl", `"session":{"agent":"claude"`, `"session":{"agent":"other"`) },
		"a session with a slash":  func(p *parts) { p.edit("commits.jsonl", sessionID, "../../../../../../../../../../../etc/x") },
		"a log that is not there": func(p *parts) { p.edit("commits.jsonl", `"log":"`, `"log":"00`+p.id(0)[:0]) },
		"no such head":            func(p *parts) { p.edit("thread.json", `"head":"`, `"head":"x`) },
		"no such tip":             func(p *parts) { p.edit("thread.json", `"tip":"`, `"tip":"x`) },
		"no such pin":             func(p *parts) { p.edit("thread.json", `"}`, `","pins":[{"checkpoint":"x","name":"y"}]}`) },
		"a pin without a name":    func(p *parts) { p.edit("thread.json", `"}`, `","pins":[{"checkpoint":"`+p.id(0)+`"}]}`) },
		"two documents":           func(p *parts) { p.files["thread.json"] += p.files["thread.json"] },
		"an empty thread id":      func(p *parts) { p.edit("thread.json", `"id":"t"`, `"id":""`) },
		"another name of an object": func(p *parts) {
			p.files["objects/00/"+strings.Repeat("0", 64)] = "x"
		},
		"a log continues one that is missing": (*parts).hideMissingLog,
		"an object in another place": func(p *parts) {
			name := segno.HashOf([]byte("x")).String()
			p.files["objects/zz/"+name] = "x"
		},
		"an object nothing names": func(p *parts) { p.put("x") },
		"an object is missing": func(p *parts) {
			name := segno.HashOf([]byte("one\n")).String()
			delete(p.files, "objects/"+name[:2]+"/"+name)
		},
		"a tree is missing": func(p *parts) { delete(p.files, "objects/"+p.tree(1)[:2]+"/"+p.tree(1)) },
		"a chunk is missing": func(p *parts) {
			for name, data := range p.files {
				if strings.Contains(data, `"content":"alpha"`) && strings.HasPrefix(name, "objects/") {
					delete(p.files, name)
				}
			}
		},
		"a tree that leads out":     func(p *parts) { p.root(treeHead + fileEntry(p, "f", "..", 0xa4, 0x03)) },
		"a tree with a slash":       func(p *parts) { p.root(treeHead + fileEntry(p, "f", "a/b", 0xa4, 0x03)) },
		"a tree with a NUL":         func(p *parts) { p.root(treeHead + fileEntry(p, "f", "a\x00b", 0xa4, 0x03)) },
		"a name twice":              func(p *parts) { e := fileEntry(p, "f", "a", 0xa4, 0x03); p.root(treeHead + e + e) },
		"setuid":                    func(p *parts) { p.root(treeHead + fileEntry(p, "f", "a", 0xed, 0x13)) },
		"a link out":                func(p *parts) { p.root(treeHead + "s\x01l\x0b/etc/passwd") },
		"a link up":                 func(p *parts) { p.root(treeHead + "s\x01l\x02..") },
		"a link through another":    func(p *parts) { p.root(treeHead + "s\x01l\x06d/../x") },
		"protected":                 func(p *parts) { p.root(treeHead + "p\x01l\x01x") },
		"not a tree":                func(p *parts) { p.root("x") },
		"a hook of the environment": func(p *parts) { p.sidecar("session-env/hook-0.sh") },
		"settings of a session":     func(p *parts) { p.sidecar("tasks/settings.json") },
		"servers of a session":      func(p *parts) { p.sidecar("session/.MCP.json") },
		"sidecars of an agent that has none": func(p *parts) {
			p.edit("commits.jsonl", `,"version":"2.1.197"`, `,"sidecars":"`+p.tree(0)+`","version":"2.1.197"`)
			p.edit("commits.jsonl", `"session":{"agent":"claude"`, `"session":{"agent":"codex"`)
		},
		"a newer tree": func(p *parts) { p.root("segno tree 9\n") },
		"more files than it says": func(p *parts) {
			p.edit("commits.jsonl", `"files":1,"bytes":4`, `"files":9,"bytes":4`)
		},
		"a file of another size": func(p *parts) {
			p.root(treeHead + "f\x01a\xa4\x03\x05" + raw(p.put("x")) + "\x00")
			p.edit("commits.jsonl", `"bytes":4`, `"bytes":5`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := sound.clone(t)
			forge(p)
			_, err := m.importer().Thread(t.Context(), p.write(), pack.Into{Dir: dir, TrustSession: true})
			if kind := segno.KindOf(err); kind != segno.KindCorrupt && kind != segno.KindNewer && kind != segno.KindInvalid {
				t.Errorf("error %v (%s)", err, kind)
			} else {
				t.Log(err)
			}
			m.isEmpty(dir)
		})
	}
	// If nothing is forged, the same parts are valid.
	_, err := m.importer().Thread(t.Context(), sound.write(), pack.Into{Dir: dir, TrustSession: true})
	must(t, err)
}

// isEmpty checks that an import left no directory, threads or workspaces.
func (m *machine) isEmpty(dir string) {
	m.Helper()
	if _, err := os.Lstat(dir); err == nil {
		m.Error("it left a directory")
	}
	for t := range m.store.Threads(m.Context(), segno.ThreadQuery{}) {
		m.Errorf("it left thread %s", t.ID)
	}
	for w := range m.store.FindWorkspaces(m.Context(), nil, 0, 0) {
		m.Errorf("it left workspace %s", w.Path)
	}
}

// TestOddThreads imports threads that are unusual but valid.
func TestOddThreads(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for name, forge := range map[string]func(p *parts){
		"as it is": func(*parts) {},
		"ids with slashes": func(p *parts) {
			id := p.id(0)
			p.files["commits.jsonl"] = strings.ReplaceAll(p.files["commits.jsonl"], id, "../../"+id)
		},
		"a thread id with slashes": func(p *parts) {
			p.edit("thread.json", `"id":"t"`, `"id":"../../\u001b[2J"`)
		},
		"a late time":   func(p *parts) { p.edit("commits.jsonl", `"2026-03-01T12:02:00Z"`, `"9999-12-31T23:59:59.999999999Z"`) },
		"an early time": func(p *parts) { p.edit("commits.jsonl", `"2026-03-01T12:01:00Z"`, `"0001-01-01T00:00:00Z"`) },
		"a zone":        func(p *parts) { p.edit("commits.jsonl", `"2026-03-01T12:01:00Z"`, `"2026-03-01T12:01:00+14:00"`) },
		"a late thread": func(p *parts) {
			p.files["thread.json"] = regexp.MustCompile(`"created":"[^"]*"`).ReplaceAllString(p.files["thread.json"], `"created":"9999-12-31T23:59:59Z"`)
		},
		"roots elsewhere": func(p *parts) {
			p.files["commits.jsonl"] = regexp.MustCompile(`"(root|dir)":"[^"]*"`).ReplaceAllString(p.files["commits.jsonl"], `"$1":"/../../etc\u001b[2J/..//x"`)
		},
		"a label": func(p *parts) {
			p.edit("thread.json", `"}`, `","pins":[{"checkpoint":"`+p.id(0)+`","name":"\u001b[2J\n../x"}]}`)
		},
		"a long line": func(p *parts) {
			p.edit("commits.jsonl", `"kind":"turn",`, `"kind":"turn",`)
			p.edit("commits.jsonl", `"agent":"claude",`, `"agent":"claude","prompt":"`+strings.Repeat("x", 10<<20)+`",`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := soundParts(t)
			forge(p)
			m := newMachine(t)
			dir := filepath.Join(m.dir, "in")
			got, err := m.importer().Thread(t.Context(), p.write(), pack.Into{Dir: dir, TrustSession: true})
			must(t, err)
			if data, _ := os.ReadFile(filepath.Join(dir, "d/a")); string(data) != "two\n" || got.Commits != 2 {
				t.Errorf("%q, %+v", data, got)
			}
			if again, err := m.importer().Thread(t.Context(), p.write(), pack.Into{Dir: dir, TrustSession: true}); err != nil || !again.WasComplete {
				t.Errorf("again: %+v, %v", again, err)
			}
			must(t, check(t, m))
		})
	}
}

// TestATreeOfManyPaths has 40 small objects that form a tree of 2^40 paths.
func TestATreeOfManyPaths(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	p := soundParts(t)
	below := p.put("segno tree 1\n")
	for range 40 {
		h, _ := segno.ParseHash(below)
		var b bytes.Buffer
		b.WriteString("segno tree 1\n")
		for _, name := range []string{"a", "b"} {
			b.WriteString("d\x01" + name + "\xed\x03")
			b.Write(h[:])
			b.WriteByte(0)
		}
		below = p.put(b.String())
	}
	p.edit("commits.jsonl", p.tree(1), below)
	m := newMachine(t)
	dir := filepath.Join(m.dir, "in")
	if _, err := m.importer().Thread(t.Context(), p.write(), pack.Into{Dir: dir, TrustSession: true}); !errors.Is(err, segno.KindRefused) {
		t.Errorf("error %v", err)
	}
	m.isEmpty(dir)
}
