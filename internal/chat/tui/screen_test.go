package tui

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/store/memory"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) {
	memdir.Use()
	goleak.VerifyTestMain(m)
}

// screen is the program without a terminal: a test sends keys and reads the output. It uses
// a real agent.
type screen struct {
	*testing.T
	*model
	chat    *chat.Chat
	printed []string
	todo    []tea.Cmd
	left    bool // it has quit
}

// open starts a chat in dir.
func open(t *testing.T, store *memory.Store, dir, session string) *screen {
	t.Helper()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	c, err := chat.Open(t.Context(), chat.Config{Model: offline.New(), Store: store, Dir: dir, Session: session, Actor: "ann",
		Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s := &screen{T: t, chat: c, model: newModel(t.Context(), Options{Chat: c, Model: "offline/plain"})}
	s.model.print = func(text string) tea.Cmd {
		return func() tea.Msg { s.printed = append(s.printed, text); return nil }
	}
	s.model.after = func(_ time.Duration, cmd tea.Cmd) tea.Cmd { return cmd }
	t.Cleanup(func() { s.stream.stop() })
	s.todo = append(s.todo, s.Init())
	s.settle()
	return s
}

func fresh(t *testing.T) *screen {
	t.Helper()
	return open(t, memory.New(time.Now), t.TempDir(), "my-project")
}

// settle runs commands until none is left.
func (s *screen) settle() {
	for len(s.todo) > 0 {
		cmd := s.todo[0]
		s.todo = s.todo[1:]
		if cmd != nil {
			s.take(cmd())
		}
	}
}

func (s *screen) take(msg tea.Msg) {
	if _, ok := msg.(tea.QuitMsg); ok {
		s.left = true
		return
	}
	// A batch or a sequence is a list of commands.
	if v := reflect.ValueOf(msg); v.IsValid() && v.Kind() == reflect.Slice && v.Type().Elem() == reflect.TypeFor[tea.Cmd]() {
		for i := range v.Len() {
			s.todo = append(s.todo, v.Index(i).Interface().(tea.Cmd))
		}
		return
	}
	if msg != nil {
		_, cmd := s.Update(msg)
		s.todo = append(s.todo, cmd)
	}
}

func (s *screen) press(keys ...tea.Key) {
	s.Helper()
	for _, k := range keys {
		s.take(tea.KeyPressMsg(k))
		s.settle()
	}
}

func (s *screen) typed(text string) {
	s.Helper()
	for _, r := range text {
		s.press(tea.Key{Code: r, Text: string(r)})
	}
}

// send types a line and sends it.
func (s *screen) send(text string) {
	s.Helper()
	s.typed(text)
	s.press(enter)
}

// choose picks an answer by its key and confirms it.
func (s *screen) choose(key string) {
	s.Helper()
	s.typed(key)
	s.press(enter)
}

var (
	enter = tea.Key{Code: tea.KeyEnter}
	esc   = tea.Key{Code: tea.KeyEscape}
	ctrlC = tea.Key{Code: 'c', Mod: tea.ModCtrl}
	ctrlD = tea.Key{Code: 'd', Mod: tea.ModCtrl}
	ctrlJ = tea.Key{Code: 'j', Mod: tea.ModCtrl}
)

// shows returns the whole visible text, with names instead of the values that differ
// between runs.
func (s *screen) shows() string {
	s.Helper()
	text := strings.Join(s.printed, "\n") + "\n" + strings.Repeat("═", s.width) + "\n" + s.View().Content + "\n"
	var all []segno.CommitID
	for cp, err := range s.chat.Store.Checkpoints(context.WithoutCancel(s.Context()), segno.CheckpointQuery{Thread: segno.ThreadID(s.chat.Session)}) {
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, cp.ID)
	}
	for i, id := range all {
		text = strings.ReplaceAll(text, chat.Short(id), fmt.Sprintf("<id%02d>", len(all)-i))
	}
	return text
}

// golden compares the screen with testdata/NAME.
func (s *screen) golden(name string) {
	s.Helper()
	path := filepath.Join("testdata", name+".golden")
	got := s.shows()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			s.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		s.Errorf("%s (run with -update if it is right)\n%s", path, diff)
	}
	for i, row := range strings.Split(s.View().Content, "\n") {
		if n := ansi.StringWidth(row); n > s.width {
			s.Errorf("row %d has %d columns of %d: %q", i, n, s.width, row)
		}
	}
}

// sees fails the test unless the texts are visible.
func (s *screen) sees(texts ...string) {
	s.Helper()
	for _, text := range texts {
		if !strings.Contains(s.shows(), text) {
			s.Errorf("%q is not to be seen in\n%s", text, s.shows())
		}
	}
}
