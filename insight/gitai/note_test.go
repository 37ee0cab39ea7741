package gitai

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
)

// examples are notes of git-ai, from its documents: one of each form of keys.
const examples = `src/main.rs
  s_c9883b05a2487d::t_9f8e7d6c5b4a32 1-10,15
  h_31dce776f88375 12-20
"src/my file.rs"
  c9883b05a2487d6d 1-4,9-10,12
---
{
  "schema_version": "authorship/3.0.0",
  "git_ai_version": "1.4.5",
  "base_commit_sha": "7734793b756b3921c88db5375a8c156e9532447b",
  "prompts": {
    "c9883b05a2487d6d": {"agent_id": {"tool": "cursor", "id": "session_123", "model": "gpt-4"}, "total_additions": 15}
  },
  "humans": {"h_31dce776f88375": {"author": "Developer <dev@example.com>"}},
  "sessions": {"s_c9883b05a2487d": {"agent_id": {"tool": "cursor", "id": "session_123", "model": "gpt-4"}}}
}
`

func TestNotesOfGitAI(t *testing.T) {
	n, err := Parse([]byte(examples))
	if err != nil {
		t.Fatal(err)
	}
	session := SessionKey("cursor", "session_123")
	for _, x := range []struct {
		path   string
		line   int
		key    string
		agrees bool // with the session
	}{
		{"src/main.rs", 1, "s_c9883b05a2487d::t_9f8e7d6c5b4a32", true},
		{"src/main.rs", 15, "h_31dce776f88375", false},
		{"src/main.rs", 11, "", false},
		{"src/my file.rs", 10, "c9883b05a2487d6d", true},
		{"src/my file.rs", 11, "", false},
		{"other", 1, "", false},
	} {
		key := n.KeyAt(x.path, x.line)
		if key != x.key || Agree(key, session) != x.agrees {
			t.Errorf("%s:%d has %q, which agrees with %s: %v", x.path, x.line, key, session, Agree(key, session))
		}
		if agent, ok := n.AgentOf(key); ok != x.agrees || ok && agent != (Agent{"cursor", "session_123", "gpt-4"}) {
			t.Errorf("%q is of %+v", key, agent)
		}
		if notByAnAgent := !x.agrees; Agree(key, "") != notByAnAgent {
			t.Errorf("%q agrees with an author that is not an agent: %v", key, !notByAnAgent)
		}
	}
	if Agree("s_0000000000000a::t_00000000000000", session) || Agree("abcdef0", session) || !Agree("c9883b0", session) {
		t.Error("keys of other sessions agree, or a short key does not")
	}
}

func TestEncodedNotesAreReadAgain(t *testing.T) {
	f, g := File{Path: "a b"}, File{Path: "ä"}
	for _, line := range []int{1, 2, 3, 7} {
		f.add("s_1::t_1", line)
	}
	f.add("s_1::t_2", 4)
	g.add("s_1::t_1", 1)
	n := &Note{[]File{f, g}, Metadata{schema, "base", map[string]Session{}, map[string]Session{"s_1": {Agent{"claude", "<id>", "unknown"}}}}}
	text, err := n.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if want := "\"a b\"\n  s_1::t_1 1-3,7\n  s_1::t_2 4\nä\n  s_1::t_1 1\n---\n{\n"; !strings.HasPrefix(string(text), want) {
		t.Errorf("the note is\n%s", text)
	}
	again, err := Parse(text)
	if diff := cmp.Diff(n, again); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for path, is := range map[string]bool{"a": true, "a b": true, "---": false, "a\"b": false, "a\nb": false, "a\x1b": false, "caf\xe9": false} {
		if isWritable(path) != is {
			t.Errorf("the format can have %q: %v", path, !is)
		}
	}
}

func TestMalformedNotes(t *testing.T) {
	metadata := "---\n" + `{"schema_version":"authorship/3.0.0"}`
	for text, want := range map[string]segno.Kind{
		"":                                  segno.KindCorrupt,
		"---\nnot JSON":                     segno.KindCorrupt,
		"---\n{}":                           segno.KindNewer,
		"  s_1 1\n" + metadata:              segno.KindCorrupt,
		"a\n  s_1\n" + metadata:             segno.KindCorrupt,
		"a\n  s_1 0\n" + metadata:           segno.KindCorrupt,
		"a\n  s_1 5-2\n" + metadata:         segno.KindCorrupt,
		"a\n  s_1 1-x\n" + metadata:         segno.KindCorrupt,
		"a\n  s_1 99999999999\n" + metadata: segno.KindCorrupt,
	} {
		if _, err := Parse([]byte(text)); segno.KindOf(err) != want {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	if n, err := Parse([]byte(metadata)); err != nil || n.KeyAt("a", 1) != "" {
		t.Errorf("an empty note: %v", err)
	}
}
