package segno_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/file"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/workspace"
	"google.golang.org/protobuf/encoding/protowire"
)

// vector is a block of docs/format.md that begins with "```vector KIND". Each line is a key and a value. A
// line that begins with a space continues the value of the previous line.
type vector struct {
	t     *testing.T
	kind  string
	pairs [][2]string
}

func (v *vector) get(key string) string {
	v.t.Helper()
	for _, p := range v.pairs {
		if p[0] == key {
			return p[1]
		}
	}
	v.t.Fatalf("the vector has no %s", key)
	return ""
}

func (v *vector) hex(key string) []byte {
	v.t.Helper()
	data, err := hex.DecodeString(v.get(key))
	if err != nil {
		v.t.Fatalf("%s: %v", key, err)
	}
	return data
}

// same compares the value of a key with the value that the code read.
func (v *vector) same(key string, got any, err error) {
	v.t.Helper()
	text, isText := got.(string)
	if data, marshalErr := json.Marshal(got); err == nil && !isText {
		text, err = string(data), marshalErr
	}
	if err != nil || text != v.get(key) {
		v.t.Errorf("%s is\n%s, %v; the document has\n%s", key, text, err, v.get(key))
	}
}

var (
	vectorBlock = regexp.MustCompile("(?s)```vector ([^\n]*)\n(.*?)\n```")
	protoBlock  = regexp.MustCompile("(?s)```proto\n(.*?)\n```")
	fold        = regexp.MustCompile(`\n +`)
)

// TestFormat reads the vectors of docs/format.md with the code of the stores.
func TestFormat(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("docs", "format.md"))
	if err != nil {
		t.Fatal(err)
	}
	messages := parseProto(string(protoBlock.FindSubmatch(doc)[1]))
	checks := map[string]func(*vector){
		"record":     func(v *vector) { checkRecord(v, messages) },
		"packed":     checkPacked,
		"seal":       checkSeal,
		"snapshot":   checkSnapshot,
		"transcript": checkTranscript,
		"pack":       checkPack,
		"file":       checkFile,
		"kv":         checkKV,
		"spool":      checkSpool,
	}
	seen := map[string]bool{}
	for _, block := range vectorBlock.FindAllStringSubmatch(string(doc), -1) {
		t.Run(block[1], func(t *testing.T) {
			v := &vector{t: t, kind: block[1]}
			for line := range strings.Lines(fold.ReplaceAllString(block[2], "")) {
				key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
				v.pairs = append(v.pairs, [2]string{key, value})
			}
			group, _, _ := strings.Cut(v.kind, " ")
			check := checks[group]
			if check == nil {
				t.Fatal("no check of this kind of vector")
			}
			seen[group] = true
			check(v)
		})
	}
	for group := range checks {
		if !seen[group] {
			t.Errorf("the document has no vector of kind %s", group)
		}
	}
}

// fieldTypes holds the types of a message's fields: scalars, or names of messages.
type fieldTypes map[protowire.Number]string

// parseProto parses the fields of the messages in a .proto file. It supports only the syntax that the
// document uses.
func parseProto(text string) map[string]fieldTypes {
	messages := map[string]fieldTypes{}
	var name string
	message, field := regexp.MustCompile(`^message (\w+)`), regexp.MustCompile(`(?:optional|repeated) (\w+) \w+ = (\d+);`)
	for line := range strings.Lines(text) {
		if m := message.FindStringSubmatch(line); m != nil {
			name = m[1]
			messages[name] = fieldTypes{}
		}
		for _, m := range field.FindAllStringSubmatch(line, -1) {
			n, _ := strconv.Atoi(m[2])
			messages[name][protowire.Number(n)] = m[1]
		}
	}
	return messages
}

// checkProto walks a message and verifies that the .proto text declares each of its fields.
func checkProto(t *testing.T, messages map[string]fieldTypes, name string, data []byte) {
	t.Helper()
	forms := map[string]protowire.Type{"sint64": protowire.VarintType, "bool": protowire.VarintType, "fixed32": protowire.Fixed32Type}
	for len(data) > 0 {
		number, _, n := protowire.ConsumeField(data)
		if n < 0 {
			t.Fatalf("%s: %v", name, protowire.ParseError(n))
		}
		declared, ok := messages[name][number]
		want, isScalar := forms[declared]
		if !isScalar {
			want = protowire.BytesType
		}
		if _, actual, tag := protowire.ConsumeTag(data); !ok || actual != want {
			t.Errorf("%s: field %d has wire type %d, and is declared as %q", name, number, actual, declared)
		} else if messages[declared] != nil {
			inner, _ := protowire.ConsumeBytes(data[tag:])
			checkProto(t, messages, declared, inner)
		}
		data = data[n:]
	}
}

func checkRecord(v *vector, messages map[string]fieldTypes) {
	data := v.hex("record")
	_, kind, _ := strings.Cut(v.kind, " ")
	checkProto(v.t, messages, kind, data)
	var value any
	var again []byte
	var err error
	paired := record.HasOther(data)
	switch kind {
	case "Checkpoint":
		var c *segno.Checkpoint
		c, err = record.DecodeCheckpoint(data)
		value, again = c, record.EncodeCheckpoint(c, paired)
	case "Entries":
		var e []segno.Entry
		e, err = record.DecodeEntries(data)
		value, again = e, record.EncodeEntries(e, paired)
	case "Thread":
		var x segno.Thread
		x, err = record.DecodeThread("thread", data)
		value, again = x, record.EncodeThread(&x)
	case "Link":
		var x segno.Link
		x, err = record.DecodeLink(data)
		value, again = x, record.EncodeLink(&x)
	case "Operation":
		var x segno.Operation
		x, err = record.DecodeOperation("operation", "workspace", data)
		value, again = x, record.EncodeOperation(&x)
	case "Workspace":
		var x segno.WorkspaceRecord
		x, err = record.DecodeWorkspace("workspace", data)
		value, again = x, record.EncodeWorkspace(&x)
	case "State":
		var x segno.WorkspaceState
		x, err = record.DecodeState("workspace", data)
		value, again = x, record.EncodeState(&x)
	}
	v.same("value", value, err)
	v.same("record", hex.EncodeToString(again), nil)
}

func checkPacked(v *vector) {
	rec, err := record.NewSqueezer().Unpack(v.hex("packed"))
	v.same("record", hex.EncodeToString(rec), err)
}

func checkSeal(v *vector) {
	sealer, _, err := record.Unlock("store", v.hex("key"), v.hex("mark"), false)
	if err != nil {
		v.t.Fatal(err)
	}
	plain, err := sealer.Open(v.hex("sealed"), strings.Split(v.get("place"), ", ")...)
	v.same("plain", string(plain), err)
	v.same("term of session s", fmt.Sprint(sealer.Term("session", "s")), nil)
	v.same("name of session s", sealer.Name("session", "s"), nil)
	v.same("name of the empty object", sealer.Hash("object", segno.HashOf(nil)).String(), nil)
}

// objectMap holds the objects of a vector.
type objectMap map[segno.Hash][]byte

func (m objectMap) Get(_ context.Context, name segno.Hash) ([]byte, error) {
	if data, ok := m[name]; ok {
		return bytes.Clone(data), nil
	}
	return nil, segno.NewError(segno.KindNotFound, "read object", name.String(), nil)
}
func (m objectMap) Has(_ context.Context, name segno.Hash) (bool, error) { return m[name] != nil, nil }
func (m objectMap) Batch() segno.Batch                                   { return nil }
func (m objectMap) Keep(context.Context, segno.Staged) error             { return nil }

// checkSnapshot writes the files of a snapshot to an empty directory.
func checkSnapshot(v *vector) {
	objects := objectMap{}
	var tree, times segno.Hash
	for _, p := range v.pairs {
		what, name, _ := strings.Cut(p[0], " ")
		if what == "path" {
			continue
		}
		data := v.hex(p[0])
		h := segno.HashOf(data)
		objects[h] = data
		if !strings.HasPrefix(h.String(), name) {
			v.t.Errorf("%s has the hash %s", p[0], h)
		}
		switch what {
		case "root":
			tree = h
		case "times":
			times = h
		}
	}
	dir := v.t.TempDir()
	w, err := workspace.Open(dir, workspace.Options{ID: "w", Objects: objects})
	if err != nil {
		v.t.Fatal(err)
	}
	steps, err := w.Diff(v.t.Context(), segno.Hash{}, tree)
	if err == nil {
		var conflicts []segno.Conflict
		if conflicts, err = w.Apply(v.t.Context(), steps, times); len(conflicts) > 0 {
			v.t.Error(conflicts)
		}
	}
	if err != nil {
		v.t.Fatal(err)
	}
	for _, p := range v.pairs {
		path, ok := strings.CutPrefix(p[0], "path ")
		if !ok {
			continue
		}
		fi, err := os.Lstat(filepath.Join(dir, path))
		if err != nil {
			v.t.Fatal(err)
		}
		got := fi.Mode().String()
		switch {
		case fi.Mode().IsRegular():
			content, _ := os.ReadFile(filepath.Join(dir, path))
			got = fmt.Sprintf("%v %q %d", fi.Mode(), content, fi.ModTime().UnixNano())
		case fi.Mode()&os.ModeSymlink != 0:
			target, _ := os.Readlink(filepath.Join(dir, path))
			got = fmt.Sprintf("symlink to %s", target)
		}
		v.same(p[0], got, nil)
	}
}

// unfold replaces the sign that stands for a line break in the document with a line break.
func unfold(text string) string { return strings.ReplaceAll(text, " ⏎ ", "\n") }

// checkTranscript cuts the position of a vector into a new session.
func checkTranscript(v *vector) {
	objects := objectMap{}
	p := segno.Position{Session: segno.SessionID(v.get("session")), Leaf: v.get("leaf"), SHA256: segno.Hash(v.hex("sha256"))}
	p.Offset, _ = strconv.ParseInt(v.get("offset"), 10, 64)
	for _, pair := range v.pairs {
		what, name, _ := strings.Cut(pair[0], " ")
		data := []byte(unfold(pair[1]))
		h := segno.HashOf(data)
		switch what {
		case "log":
			p.Log = h
		case "sidecars":
			p.Sidecars = h
		case "object":
		default:
			continue
		}
		objects[h] = data
		if !strings.HasPrefix(h.String(), name) {
			v.t.Errorf("%s has the hash %s", pair[0], h)
		}
	}
	home := v.t.TempDir()
	to := segno.Target{Session: segno.SessionID(v.get("copied to session")), Dir: v.t.TempDir()}
	src, err := claude.New(home, claude.Options{}).Cut(v.t.Context(), p, to, objects)
	if err != nil {
		v.t.Fatal(err)
	}
	data, err := os.ReadFile(src.Path)
	v.same("transcript", strings.ReplaceAll(string(data), "\n", " ⏎ "), err)
	for _, pair := range v.pairs {
		if name, ok := strings.CutPrefix(pair[0], "file "); ok {
			data, err := os.ReadFile(filepath.Join(home, name))
			v.same(pair[0], string(data), err)
		}
	}
}

// checkPack adds the pack of a vector to a store, with the tables as the document describes them, and reads
// the pack's objects.
func checkPack(v *vector) {
	pack := v.hex("pack")
	dir := v.t.TempDir()
	name := filepath.Join(dir, "segno.db")
	s, err := sqlite.Open(v.t.Context(), name, sqlite.Options{})
	if err != nil {
		v.t.Fatal(err)
	}
	defer s.Close()
	vfs, err := sqlite.VFS()
	if err != nil {
		v.t.Fatal(err)
	}
	db, err := sql.Open("sqlite", name+"?vfs="+vfs)
	if err == nil {
		err = os.MkdirAll(name+".packs", 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(name+".packs", "vector.pack"), pack, 0o600)
	}
	if err != nil {
		v.t.Fatal(err)
	}
	defer db.Close()
	exec := func(query string, args ...any) {
		v.t.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			v.t.Fatal(err)
		}
	}
	tail := pack[len(pack)-56:]
	index, count := pack[binary.LittleEndian.Uint64(tail):len(pack)-56], binary.LittleEndian.Uint64(tail[8:])
	born := binary.LittleEndian.Uint64(pack[8:])
	v.same("born", fmt.Sprint(born), nil)
	exec("INSERT INTO packs (n, name, born, objects) VALUES (1, 'vector', ?, ?)", born, count)
	var names []segno.Hash
	for len(index) > 0 {
		object, encoding := segno.Hash(index[:32]), uint64(index[32])
		var numbers [3]uint64 // size, at, length
		index = index[33:]
		for i := range numbers {
			x, n := binary.Uvarint(index)
			numbers[i], index = x, index[n:]
		}
		exec("INSERT INTO objects (name, size, born, pack, at, length) VALUES (?, ?, ?, 1, ?, ?)", object[:], numbers[0], born, numbers[1],
			numbers[2]<<3|encoding)
		names = append(names, object)
	}
	for _, object := range names {
		data, err := s.Objects().Get(v.t.Context(), object)
		v.same("object "+object.String()[:8], string(data), err)
	}
}

// checkLine reads the line of commit c and compares it with the vector.
func checkLine(v *vector, s segno.Store) {
	line, err := s.Load(v.t.Context(), "c", segno.Window{Entries: true})
	if err != nil {
		v.t.Fatal(err)
	}
	v.same("commits", line.Commits, nil)
	head, err := s.Head(v.t.Context(), "thread")
	v.same("head", head, err)
}

func checkFile(v *vector) {
	dir := v.t.TempDir()
	logDir := filepath.Join(dir, "threads", "thread")
	if err := os.MkdirAll(logDir, 0o700); err != nil {
		v.t.Fatal(err)
	}
	for name, key := range map[string]string{filepath.Join(dir, "format.json"): "format.json", filepath.Join(logDir, "log.jsonl"): "log.jsonl"} {
		if err := os.WriteFile(name, []byte(v.get(key)+"\n"), 0o600); err != nil {
			v.t.Fatal(err)
		}
	}
	s, err := file.Open(v.t.Context(), dir, file.Options{})
	if err != nil {
		v.t.Fatal(err)
	}
	defer s.Close()
	checkLine(v, s)
}

func checkKV(v *vector) {
	m := kvtest.NewMap(nil)
	for _, p := range v.pairs {
		if key, ok := strings.CutPrefix(p[0], "key "); ok {
			if _, err := m.Put(v.t.Context(), key, v.hex(p[0]), kv.RevNone); err != nil {
				v.t.Fatal(err)
			}
		}
	}
	s, err := kv.Open(v.t.Context(), m, kv.Options{})
	if err != nil {
		v.t.Fatal(err)
	}
	defer s.Close()
	checkLine(v, s)
}

func checkSpool(v *vector) {
	dir := v.t.TempDir()
	for _, p := range v.pairs {
		name, ok := strings.CutPrefix(p[0], "file ")
		if !ok {
			continue
		}
		name = filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.WriteFile(name, []byte(unfold(p[1])+"\n"), 0o600)
		}
		if err != nil {
			v.t.Fatal(err)
		}
	}
	d := spool.New(dir, vfs.OS)
	turns, err := d.Turns(v.t.Context())
	v.same("turns", turns, err)
	entries, _, err := d.Entries(v.t.Context(), "key")
	v.same("entries", entries, err)
	waiting, err := d.ListDeferred(v.t.Context())
	v.same("deferred", slices.Collect(func(yield func(segno.CommitID) bool) {
		for _, c := range waiting {
			yield(c.ID)
		}
	}), err)
	plan, err := d.ReadPlan(v.t.Context(), "workspace")
	v.same("journal", strings.TrimSpace(string(plan)), err)
}
