package claude_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

func TestAdoptedTurns(t *testing.T) {
	d := newFixture(t, 0)
	d.attach("hook_success") // the output of a SessionStart hook
	d.prompt("one")
	key := fmt.Sprintf("p-%d", d.ids-1)
	d.tools(3)
	d.answer("done")
	one := d.duration()
	d.prompt("nobody answered this")
	d.record(d.head, "user", `"message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]},`)
	d.compact(1)
	d.prompt("two")
	two := d.answer("done")
	d.record(d.head, "user", `"message":{"role":"user","content":"<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>all of it</command-args>"},`)
	d.record(d.head, "user", `"isMeta":true,"message":{"role":"user","content":[{"type":"text","text":"Review what was asked for."}]},`)
	three := d.answer("reviewed")
	four := d.prompt("<html> is a prompt, too")
	d.answer("so it is")
	d.flush(t)
	got := d.capture(t, nil, nil)
	type seen struct{ prompt, leaf string }
	var turns []seen
	for _, e := range got.Earlier {
		turns = append(turns, seen{e.Prompt, e.Position.Leaf})
	}
	want := []seen{{"one", one}, {"two", two}, {"/review all of it", three}}
	if !slices.Equal(turns, want) || string(got.Earlier[0].Key) != key {
		t.Errorf("turns %v (key %s), want %v (key %s)", turns, got.Earlier[0].Key, want, key)
	}
	if got.Prompt != four || got.Follows != three || got.Origin != nil {
		t.Errorf("the newest began with %s and follows %s, origin %v", got.Prompt, got.Follows, got.Origin)
	}
	if d.o.size > got.Position.Offset+2500 {
		t.Errorf("%d bytes are stored in %d", got.Position.Offset, d.o.size)
	}
}

// A rewind of 2.1.329 is visible only in the next prompt, and its record follows that
// prompt. A file that ends between them has a new turn, not an empty conversation.
func TestRewindWithoutPointer(t *testing.T) {
	d := newFixture(t, 2)
	one := d.capture(t, nil, nil).Earlier[0].Position
	p := d.capture(t, nil, nil).Position
	d.head = one.Leaf
	prompt := d.prompt("once more")
	d.addLine(`{"type":"last-prompt","leafUuid":"00000000-0000-0000-0000-000000000000","explicit":true,"sessionId":"%s"}`, d.session)
	d.flush(t)
	for _, prev := range []*segno.Position{&p, nil} {
		got := d.capture(t, prev, func(leaf string) bool { return leaf == one.Leaf })
		if got.Position.Leaf != prompt || got.Prompt != prompt || got.Follows != one.Leaf {
			t.Errorf("captured %+v, want the prompt %s after %s", got, prompt, one.Leaf)
		}
		if ok, err := d.c.EndsAt(context.Background(), d.source(), got.Position); err != nil || !ok {
			t.Errorf("EndsAt: %v, %v", ok, err)
		}
	}
	if ok, err := d.c.EndsAt(context.Background(), d.source(), p); err != nil || ok {
		t.Errorf("EndsAt of the earlier position: %v, %v", ok, err)
	}
}

func TestEmptyConversation(t *testing.T) {
	d := newFixture(t, 0)
	d.addLine(`{"type":"mode","mode":"normal","sessionId":"%s"}`, d.session)
	d.attach("hook_success")
	d.flush(t)
	got := d.capture(t, nil, nil)
	if got.Position.Leaf != "" || got.Prompt != "" || got.Position.Offset == 0 {
		t.Errorf("captured %+v", got)
	}
	prompt := d.prompt("now")
	d.answer("yes")
	d.flush(t)
	if got = d.capture(t, &got.Position, nil); got.Prompt != prompt || got.Follows != "" || got.Position.Leaf != d.head {
		t.Errorf("captured %+v", got)
	}
}

// The user goes back to an older turn, which only the whole file shows.
func TestRewoundTurnFollowsAnOldLeaf(t *testing.T) {
	d := newFixture(t, 0)
	var leaves []string
	var p *segno.Position
	known := func(leaf string) bool { return slices.Contains(leaves, leaf) }
	for n := range 4 {
		d.turn(fmt.Sprint(n))
		leaf := d.head
		d.duration() // comes after the hook at the turn's end
		held := d.lines[len(d.lines)-1]
		d.lines = d.lines[:len(d.lines)-1]
		d.flush(t)
		got := d.capture(t, p, known)
		p, leaves = &got.Position, append(leaves, leaf)
		if got.Position.Leaf != leaf {
			t.Fatalf("turn %d ends at %s, want %s", n, got.Position.Leaf, leaf)
		}
		d.lines = append(d.lines, held)
	}
	d.head = childOf(t, d, leaves[1])
	prompt := d.prompt("another way")
	d.answer("there")
	d.flush(t)
	got := d.capture(t, p, known)
	if got.Prompt != prompt || got.Follows != leaves[1] || got.Position.Leaf != d.head {
		t.Errorf("prompt %s follows %s, want %s and %s", got.Prompt, got.Follows, prompt, leaves[1])
	}
	d.lastPrompt("", `"explicit":true,`)
	d.flush(t)
	if got = d.capture(t, &got.Position, known); got.Position.Leaf != "" || got.Prompt != "" {
		t.Errorf("an emptied conversation is captured as %+v", got)
	}
}

func childOf(t *testing.T, d *fixture, uuid string) string {
	t.Helper()
	for _, l := range bytes.Split(d.bytes(t), []byte("\n")) {
		if bytes.HasPrefix(l, []byte(`{"parentUuid":"`+uuid+`"`)) {
			return uuidOf(l)
		}
	}
	t.Fatal("no child")
	return ""
}

// TestForksAreRecognised captures sessions that begin with another session's records.
func TestForksAreRecognised(t *testing.T) {
	d := newFixture(t, 3)
	got := d.capture(t, nil, nil)
	leaf := got.Earlier[1].Position.Leaf
	known := func(l string) bool { return l == leaf || l == got.Earlier[0].Position.Leaf }
	for name, fork := range map[string]func([]byte) []byte{
		"kept uuids": func(l []byte) []byte { return l },
		"new uuids": func(l []byte) []byte {
			from := fmt.Sprintf(`"forkedFrom":{"sessionId":"%s","messageUuid":"%s"},"uuid":"`, firstSession, uuidOf(l))
			return bytes.Replace(bytes.ReplaceAll(l, []byte("-aaaa-"), []byte("-ffff-")), []byte(`"uuid":"`), []byte(from), 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 0)
			f.ids = 1000
			for _, l := range bytes.SplitAfter(d.bytes(t), []byte("\n")) {
				if len(l) == 0 {
					break
				}
				head := uuidOf(l)
				l = fork(l)
				f.lines = append(f.lines, bytes.ReplaceAll(l, []byte(firstSession+`","version`), []byte(secondSession+`","version`)))
				_, after, _ := bytes.Cut(l, []byte(`},"uuid":"`))
				if f.head = head; len(after) > 0 && name == "new uuids" {
					f.head = string(after[:36])
				}
				if head == leaf {
					break
				}
			}
			f.turn("not asked there")
			prompt := f.turnPrompt(t)
			f.turn("nor this")
			f.flush(t)
			got := f.capture(t, nil, known)
			if got.Origin == nil || got.Origin.Leaf != leaf || len(got.Earlier) != 1 || got.Earlier[0].Prompt != "not asked there" {
				t.Fatalf("origin %v, earlier %d; want %s", got.Origin, len(got.Earlier), leaf)
			}
			if got.Follows != got.Earlier[0].Position.Leaf || prompt == "" {
				t.Errorf("the newest turn follows %s", got.Follows)
			}
		})
	}
}

// turnPrompt is the newest prompt not yet in the file.
func (d *fixture) turnPrompt(t *testing.T) string {
	t.Helper()
	for _, l := range slices.Backward(d.lines) {
		if bytes.Contains(l, []byte("permissionMode")) {
			return uuidOf(l)
		}
	}
	return ""
}

func TestEndsAt(t *testing.T) {
	for name, c := range map[string]struct {
		after func(d *fixture)
		want  bool
	}{
		"nothing": {func(*fixture) {}, true},
		"metadata": {func(d *fixture) {
			d.addLine(`{"type":"mode"}`)
			d.addLine(`{"type":"file-history-snapshot"}`)
			d.addLine("")
		}, true},
		"the turn's end":     {func(d *fixture) { d.duration(); d.duration() }, true},
		"a pointer to it":    {func(d *fixture) { d.lastPrompt(d.head, `"explicit":true,`) }, true},
		"a plain pointer":    {func(d *fixture) { d.lastPrompt(d.head, "") }, true},
		"a subagent":         {func(d *fixture) { subagentLines(d.sessionWriter) }, true},
		"a prompt":           {func(d *fixture) { d.prompt("more") }, false},
		"an attachment":      {func(d *fixture) { d.attach("edited_text_file") }, false},
		"a command":          {func(d *fixture) { d.record(d.head, "system", `"subtype":"local_command",`) }, false},
		"a compaction":       {func(d *fixture) { d.compact(1) }, false},
		"another's end":      {func(d *fixture) { d.head = d.chain[0]; d.duration() }, false},
		"a pointer back":     {func(d *fixture) { d.lastPrompt(d.chain[0], `"explicit":true,`) }, false},
		"a clear":            {func(d *fixture) { d.lastPrompt("", `"explicit":true,`) }, false},
		"a replaced content": {func(d *fixture) { d.addLine(`{"type":"content-replacement","replacements":[]}`) }, false},
		"a broken line":      {func(d *fixture) { d.addLine(`{"type`) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			d := newFixture(t, 2)
			p := d.capture(t, nil, nil).Position
			c.after(d)
			d.flush(t)
			if ok, err := d.c.EndsAt(ctx, d.source(), p); err != nil || ok != c.want {
				t.Errorf("EndsAt: %v, %v", ok, err)
			}
			src, err := d.c.Cut(ctx, p, d.target(), d.o)
			if err != nil {
				t.Fatal(err)
			}
			own, err := d.c.Capture(ctx, src, nil, d.o, nil)
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := d.c.EndsAt(ctx, src, own.Position); err != nil || !ok || own.Position.Leaf != p.Leaf {
				t.Errorf("EndsAt of the cut: %v, %v", ok, err)
			}
		})
	}
	d := newFixture(t, 1)
	p := d.capture(t, nil, nil).Position
	if ok, err := d.c.EndsAt(context.Background(), segno.Source{Session: secondSession}, p); ok || err != nil {
		t.Errorf("EndsAt of a missing session: %v, %v", ok, err)
	}
}

// TestAbandonedLines cuts where the agent itself would continue from another record.
func TestAbandonedLines(t *testing.T) {
	d := newFixture(t, 1)
	one := d.head
	d.turn("the way that was left")
	d.lastPrompt(d.head, "") // still points there when the user has gone back
	d.addLine(`{"type":"file-history-snapshot","messageId":"%s"}`, d.head)
	d.addLine(`{"type":"custom-title","customTitle":"kept","sessionId":"%s"}`, d.session)
	d.addLine(`{"type":"queue-operation","operation":"enqueue","content":"left out","sessionId":"%s"}`, d.session)
	left := d.head
	d.head = one
	d.prompt("the other way")
	d.tools(3)
	answer := d.answer("here")
	d.duration()
	d.head = answer
	d.attach("hook_success") // a sibling of the end of the turn
	d.flush(t)
	got := d.capture(t, nil, nil)
	if want := headOf(d.bytes(t)); want != left || got.Position.Leaf != d.head {
		t.Fatalf("the agent would stand on %s, captured %s", want, got.Position.Leaf)
	}
	want := modelInput(d.bytes(t), d.head)
	checkCut(t, d.c, d.o, capturedTurn{got.Position, want}, d.target())
	data, err := os.ReadFile(filepath.Join(filepath.Dir(d.path), secondSession+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for word, there := range map[string]bool{"kept": true, "left out": false, "file-history": false, "the way that was left": false, "turn_duration": true} {
		if strings.Contains(string(data), word) != there {
			t.Errorf("%q is in the cut: %v", word, !there)
		}
	}
}

// If no selection of lines makes the agent continue from the leaf, the cut writes a pointer.
func TestCutWritesAPointer(t *testing.T) {
	d := newFixture(t, 0)
	d.prompt("one")
	message := "msg-1"
	d.block(message, `{"type":"tool_use","id":"t1","name":"Bash","input":{}}`, "tool_use")
	first := d.head
	d.block(message, `{"type":"tool_use","id":"t2","name":"Bash","input":{}}`, "tool_use")
	second := d.head
	leaf := d.result(first, "t1", "late")
	d.result(second, "t2", "later")
	d.lastPrompt(leaf, "")
	d.addLine(`{"type":"mode","mode":"x","sessionId":"%s"}`, d.session)
	d.lastPrompt(leaf, `"explicit":true,`)
	d.flush(t)
	p := d.capture(t, nil, nil).Position
	if p.Leaf != leaf {
		t.Fatalf("captured %s, want %s", p.Leaf, leaf)
	}
	p.Leaf = first
	checkCut(t, d.c, d.o, capturedTurn{p, modelInput(d.bytes(t), first)}, d.target())
}

// If the agent never wrote a parent, a cut finds a parent by time, as the agent does.
func TestAMissingParentIsFoundByTime(t *testing.T) {
	for _, rewound := range []bool{false, true} {
		d := newFixture(t, 2)
		one := d.head
		d.head = "99999999-aaaa-4bbb-8ccc-000000000000"
		d.prompt("three")
		d.answer("done")
		end := d.head
		if rewound {
			d.head = one
			d.prompt("four")
			d.answer("done")
		}
		d.flush(t)
		p := d.capture(t, nil, nil).Position
		p.Leaf = end
		checkCut(t, d.c, d.o, capturedTurn{p, modelInput(d.bytes(t), end)}, d.target())
	}
}

// If no record is near in time, the agent would silently lose all earlier turns. If there
// are no earlier turns, it loses nothing.
func TestAMissingParentThatCannotBeFound(t *testing.T) {
	for turns, want := range map[int]segno.Kind{0: -1, 2: segno.KindCorrupt} {
		d := newFixture(t, turns)
		d.head = "99999999-aaaa-4bbb-8ccc-000000000000"
		d.now = d.now.AddDate(0, 0, 1)
		d.prompt("much later")
		d.answer("done")
		d.flush(t)
		p := d.capture(t, nil, nil).Position
		_, err := d.c.Cut(context.Background(), p, d.target(), d.o)
		if want < 0 && err != nil {
			t.Errorf("nothing is lost, but: %v", err)
		}
		if want >= 0 {
			wantKind(t, err, want)
		}
	}
}

// TestPointers captures after the user went to another record without a prompt.
func TestPointers(t *testing.T) {
	d := newFixture(t, 3)
	got := d.capture(t, nil, nil)
	p, older := got.Position, got.Earlier[0].Position.Leaf
	for _, c := range []struct {
		leaf, extra, want string
	}{
		{p.Leaf, "", p.Leaf},
		{p.Leaf, `"explicit":true,`, p.Leaf},
		{older, `"explicit":true,"rewound":true,`, older},
		{older, "", older},     // still as explicit as before
		{"nobody", "", p.Leaf}, // names nothing: the newest record counts
		{"", `"explicit":true,`, ""},
	} {
		d.lastPrompt(c.leaf, c.extra)
		d.flush(t)
		whole := d.capture(t, nil, nil).Position
		if whole.Leaf != c.want {
			t.Errorf("after a pointer to %q (%s) the leaf is %s, want %s", c.leaf, c.extra, whole.Leaf, c.want)
		}
		next := d.capture(t, &p, nil)
		if next.Position.Leaf != c.want || next.Prompt != "" {
			t.Errorf("after a pointer to %q (%s) the capture goes on at %s, prompt %q, want %s", c.leaf, c.extra, next.Position.Leaf, next.Prompt, c.want)
		}
	}
}
