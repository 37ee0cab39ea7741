package tui

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/store/memory"
)

func TestANewSession(t *testing.T) { fresh(t).golden("new") }

func TestATurnIsShown(t *testing.T) {
	s := fresh(t)
	s.typed("write a.txt: hello")
	s.press(ctrlJ)
	s.typed("todo buy milk")
	s.golden("typed")
	s.press(enter)
	s.golden("turn")
	if text, err := os.ReadFile(filepath.Join(s.chat.Dir, "a.txt")); err != nil || string(text) != "hello" {
		t.Errorf("a.txt has %q, %v", text, err)
	}
}

func TestAnApproval(t *testing.T) {
	s := fresh(t)
	s.send("run echo one >> ledger ; run echo two >> ledger")
	s.golden("asked")
	s.choose("e")
	s.golden("editing")
	for range strings.Count(s.question.area.Value(), "") {
		s.press(tea.Key{Code: tea.KeyRight})
	}
	s.typed("!")
	s.press(enter)
	s.sees("not JSON")
	s.press(tea.Key{Code: tea.KeyBackspace})
	asked := s.question.area.Value()
	s.question.area.SetValue(`{"comand":"ls"}`)
	s.press(enter)
	s.golden("unfit")
	s.question.area.SetValue(strings.Replace(asked, "one", "edited", 1))
	s.press(enter)
	s.sees("Run this command?")
	s.choose("r")
	s.send("not today")
	s.golden("answered")
	if text, err := os.ReadFile(filepath.Join(s.chat.Dir, "ledger")); err != nil || string(text) != "edited\n" {
		t.Errorf("the ledger has %q, %v", text, err)
	}
}

// TestLongCommandIsShownInFull uses a command that is longer than the screen, with the
// important part in its middle, and one row that is wider than the screen. All of it must be
// above the question.
func TestLongCommandIsShownInFull(t *testing.T) {
	s := fresh(t)
	s.take(tea.WindowSizeMsg{Width: 100, Height: 20})
	filler := strings.Repeat(`# filler\n`, 200)
	s.take(tea.PasteMsg{Content: `call execute {"command":"echo start\n` + filler + `echo ` + strings.Repeat(" ", 200) + `; touch pwned\n` + filler + `echo end"}`})
	s.press(enter)
	s.sees("  command:\n  │ echo start\n  │ # filler\n", "  │ # filler\n  │ echo end\n", "Run this command?; scroll up: it has 407 lines")
	whole := strings.Join(s.printed, "\n")
	if n := strings.Count(whole, "\n  │ # filler"); n != 400 {
		t.Errorf("%d of 400 lines of filler are above", n)
	}
	if wide := strings.ReplaceAll(whole, "\n  ┆ ", ""); !strings.Contains(wide, "\n  │ echo "+strings.Repeat(" ", 200)+"; touch pwned\n") {
		t.Errorf("what is in the middle is not above:\n%s", whole)
	}
	for row := range strings.SplitSeq(whole, "\n") {
		if n := ansi.StringWidth(row); n > s.width {
			t.Errorf("a row has %d columns: %q", n, row)
		}
	}
	if n := strings.Count(s.View().Content, "\n"); n > 5 {
		t.Errorf("what stays has %d lines:\n%s", n, s.View().Content)
	}
	s.press(esc, enter) // later, and asked again
	if n := strings.Count(strings.Join(s.printed, "\n"), "touch pwned"); n != 3 {
		t.Errorf("it stands there %d times, want once as a call and twice as a question", n)
	}
}

// TestArgumentsAreDistinguishable shows arguments with repeated keys, line breaks and
// invisible characters. All of them must be visible.
func TestArgumentsAreDistinguishable(t *testing.T) {
	for raw, want := range map[string]string{
		`{"command":"ls","command":"rm -rf /"}`:   "  command: ls\n  command: rm -rf /",
		`{"a\nb":"x\r\n","n":5,"deep":{"k":[1]}}`: "  a⏎b:\n  │ x\\x0d\n  │ \n  n: 5\n  deep:\n  │ {\n  │   \"k\": [\n  │     1\n  │   ]\n  │ }",
		`["ls"]`:                          "  │ [\n  │   \"ls\"\n  │ ]",
		`{}`:                              "  │ {}",
		`{"c":"a\u200db\u202e\u001b[2J"}`: `  c: a\u200db\u202e\x1b[2J`,
		`{"broken`:                        `  │ {"broken`,
	} {
		if got := strings.Join(argumentLines([]byte(raw), 80), "\n"); got != want {
			t.Errorf("%s is shown as\n%s\nwant\n%s", raw, got, want)
		}
	}
}

func TestAnApprovalWaitsForTheNextProcess(t *testing.T) {
	store, dir := memory.New(time.Now), t.TempDir()
	s := open(t, store, dir, "p")
	s.send("run echo one >> ledger")
	s.sees("Run this command?")
	s.press(ctrlD)
	if !s.left {
		t.Fatal("ctrl+d does not leave")
	}
	s = open(t, store, dir, "p")
	s.sees("Restored session p: 2 messages", "Run this command?", "command: echo one >> ledger")
	s.press(esc)
	s.send("say hi")
	s.sees("answer this first")
	s.choose("s")
	s.press(enter)
	s.sees("type the reply that the agent receives")
	s.send("it printed one")
	s.typed("y")
	s.sees("replied in its place: it printed one", "ran `echo one >> ledger`: it printed one", "> say hi")
	if _, err := os.Stat(filepath.Join(dir, "ledger")); err == nil {
		t.Error("the command ran")
	}
}

func TestCommands(t *testing.T) {
	s := fresh(t)
	s.send("/sessions")
	s.send("remember x is 1")
	s.send("/session save first")
	s.send("remember x is 2")
	s.send("/undo")
	s.send("/redo")
	s.send("/session clear")
	s.send("/fork other")
	s.send("/sessions")
	s.send("/session load my-project")
	s.send("/session load first")
	s.send("/checkpoints")
	s.golden("commands")
	s.send("/help")
	s.send("/usr/bin/env is what?")
	s.send("/undo x")
	s.send("/session load")
	s.send("/session load nosuch")
	s.send("/quit")
	s.golden("help")
	if !s.left {
		t.Error("/quit does not leave")
	}
}

func TestClearIsUndone(t *testing.T) {
	s := fresh(t)
	s.send("remember x is 1")
	s.send("todo keep this")
	s.send("/session clear")
	if v := s.View().Content; strings.Contains(v, "keep this") {
		t.Errorf("the todo is still there:\n%s", v)
	}
	s.send("recall x")
	s.sees("I do not know x")
	s.send("count")
	s.sees("3 messages")
	s.send("/undo 2")
	s.send("/undo")
	if v := s.View().Content; !strings.Contains(v, "keep this") {
		t.Errorf("the todo did not come back:\n%s", v)
	}
	s.send("recall x")
	s.sees("x is 1")
}

// TestEditSendsAnotherText sends a text in place of an older turn.
func TestEditSendsAnotherText(t *testing.T) {
	s := fresh(t)
	s.send("remember x is 1")
	s.send("remember x is 2")
	s.send("remember y is 2")
	s.send("/edit t2 remember x is 3")
	s.sees("undone: now at turn 1", "> remember x is 3")
	s.send("recall x")
	s.sees("x is 3")
	s.send("recall y")
	s.sees("I do not know y")
	s.send("/edit 9 x")
	s.sees("✗ find checkpoint: t9: ")
	s.send("/edit 1")
	s.sees("use /edit 2 and the new text")
}

func TestARunUnderWay(t *testing.T) {
	s := fresh(t)
	s.width = 40
	s.resize()
	s.state = running
	for _, e := range []agent.Event{
		{Kind: agent.EventText, Text: "first I say something that is longer than the screen is wide, 日本語も "},
		{Kind: agent.EventText, Text: "and go on"},
		{Kind: agent.EventToolStart, Call: &agent.Call{ID: "1", Name: "execute", Args: []byte(`{"command":"sleep 1\nsleep 2"}`)}},
		{Kind: agent.EventText, Agent: "helper", Text: "not the agent's own"},
		{Kind: agent.EventTodos, Todos: []agent.Todo{{Text: "a", Status: "completed"}, {Text: "b", Status: "in_progress"}, {Text: "c"}, {Text: "d"}, {Text: "e"}, {Text: "f"}, {Text: "g"}}},
	} {
		s.showEvent(e)
	}
	s.golden("under_way")
	s.showEvent(agent.Event{Kind: agent.EventRetry, Text: "status 529"})
	s.take(printedMsg{})
	s.settle()
	s.sees("retrying: status 529")
	if strings.Contains(s.View().Content, "first I say") {
		t.Error("what a failed answer began with is still there")
	}
}

func TestHostileTextStaysText(t *testing.T) {
	s := fresh(t)
	if err := os.WriteFile(filepath.Join(s.chat.Dir, "bad"), []byte("\x1b[2J\x1b]0;owned\x07\u202egnp.exe\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.send("read bad")
	s.send("call execute {\"command\":\"echo \u202e31m\"}")
	s.sees(`\u202e31m`)
	s.choose("e")
	for _, r := range s.shows() {
		if isUnsafe(r) {
			t.Fatalf("%q reaches the terminal in\n%q", r, s.shows())
		}
	}
	s.press(enter) // unchanged: the call runs with its original arguments
	s.sees("approved with")
}

// TestQuestionAboutLostResult checks that the question about a lost result omits the answers
// that make no sense.
func TestQuestionAboutLostResult(t *testing.T) {
	s := fresh(t)
	s.take(statusMsg{status: chat.Status{Session: "s", Status: agent.Status{Interrupts: []segno.Interrupt{{ID: "i", Tool: "execute", Args: []byte(`{"command":"date"}`),
		Reason: segno.ReasonUnknown, Question: "it may have happened", Allowed: []segno.DecisionKind{segno.Approve, segno.Reject, segno.Respond}}}}}})
	s.settle()
	s.golden("unknown")
	s.choose("e")
	if s.state != asking {
		t.Error("the arguments of a call that was made can be edited")
	}
}

func TestArrowKeysRecallHistory(t *testing.T) {
	s := fresh(t)
	s.send("say one")
	s.send("say two")
	s.typed("dra")
	up, down := tea.Key{Code: tea.KeyUp}, tea.Key{Code: tea.KeyDown}
	for i, want := range []string{"say two", "say one", "say one", "say two", "dra", "dra"} {
		s.press([]tea.Key{up, up, up, down, down, down}[i])
		if got := s.input.Value(); got != want {
			t.Errorf("after %d arrows it has %q, want %q", i+1, got, want)
		}
	}
}

func TestCtrlC(t *testing.T) {
	s := fresh(t)
	s.typed("abc")
	s.press(ctrlC)
	if s.input.Value() != "" || s.left {
		t.Errorf("the input is %q, left %v", s.input.Value(), s.left)
	}
	s.press(ctrlC)
	s.sees("ctrl+c again to exit")
	s.typed("x")
	s.press(tea.Key{Code: tea.KeyBackspace}, ctrlC)
	if s.left {
		t.Error("it left although a key came in between")
	}
	s.press(ctrlC)
	if !s.left {
		t.Error("it did not leave")
	}
}

func TestARunIsStopped(t *testing.T) {
	s := fresh(t)
	begun := filepath.Join(s.chat.Dir, "begun")
	if err := syscall.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	s.send("remember x is 1")
	s.send("run echo > begun; sleep 60")
	s.sees("Run this command?")
	s.typed("a")
	_, cmd := s.Update(tea.KeyPressMsg(enter))
	s.todo = append(s.todo, cmd)
	for started := false; !started; {
		next := s.todo[0]
		s.todo = s.todo[1:]
		if next == nil {
			continue
		}
		msg := next()
		if t, ok := msg.(streamEvent); ok {
			started = t.event.Kind == "execute-start"
		}
		s.take(msg)
	}
	if _, err := os.ReadFile(begun); err != nil { // begun is a pipe: the read returns once the command has written
		t.Fatal(err)
	}
	s.press(ctrlC)
	s.sees("stopped; the work so far is saved", "  ✗ ")
	s.send("recall x")
	s.sees("x is 1")
}

// TestColoursAreOnlyColours compares the screen in colour with the one without.
func TestColoursAreOnlyColours(t *testing.T) {
	s := fresh(t)
	s.send("todo buy milk ; run date")
	plain := s.View().Content
	s.style = stylesOf(true)
	painted := s.View().Content
	if painted == plain || ansi.Strip(painted) != plain {
		t.Errorf("in colour it is\n%q\nand without\n%q", painted, plain)
	}
	if strings.Contains(plain, "\x1b") {
		t.Errorf("without colours there are escapes: %q", plain)
	}
}

// TestALineIsNoAnswer types lines while a question waits. Each line begins with the letter of
// an answer or contains one. No line answers the question; commands run.
func TestALineIsNoAnswer(t *testing.T) {
	s := fresh(t)
	s.send("run echo one >> ledger")
	for _, text := range []string{"apply it", "yes", "rest", "no", "say hi", "edit a.txt", "later", "  y"} {
		s.send(text)
		if s.state != asking || len(s.session.Interrupts) != 1 {
			t.Fatalf("%q leaves the state %d:\n%s", text, s.state, s.shows())
		}
	}
	if want := "apply it\nyes\nrest\nno\nsay hi\nedit a.txt\nlater\n  y"; s.draft != want {
		t.Errorf("%q is put away, want %q", s.draft, want)
	}
	s.send("/sessions")
	s.sees("/sessions\n@ my-project", "[a]pprove")
	s.choose("s")
	s.send("/sessions")
	s.sees("[a]pprove")
	if text := strings.Join(s.printed, "\n"); strings.Count(text, "\n/sessions\n@ my-project") != 2 || strings.Contains(text, "answered") {
		t.Errorf("above stands\n%s", text)
	}
	s.typed("a")
	s.sees("▸[a]pprove", "enter confirms")
	s.press(tea.Key{Code: tea.KeyBackspace}, enter)
	s.sees("pick an answer")
	s.typed("y")
	s.take(tea.PasteMsg{Content: "es, but later"})
	s.settle()
	s.sees("> yes, but later", "enter keeps your line")
	if _, err := os.Stat(filepath.Join(s.chat.Dir, "ledger")); err == nil {
		t.Fatal("the command ran")
	}
}

// TestAReplyInTheToolsPlaceAsksOnceMore checks that a reply in the tool's place is sent only
// after y.
func TestAReplyInTheToolsPlaceAsksOnceMore(t *testing.T) {
	s := fresh(t)
	s.send("run echo one >> ledger")
	s.choose("s")
	s.send("it printed")
	s.sees("the result of execute, which does not run? y sends it, n goes back")
	s.press(enter, enter)
	s.typed("n")
	s.typed(" one")
	s.press(enter)
	s.take(tea.PasteMsg{Content: "!"})
	s.settle()
	s.press(enter)
	s.typed("y")
	s.sees("replied in its place: it printed one!")
	if text := strings.Join(s.printed, "\n"); strings.Count(text, "replied in its place") != 1 {
		t.Errorf("above stands\n%s", text)
	}
}

// TestYAndN checks that y and n answer the question, and that the arrow keys select the
// answers.
func TestYAndN(t *testing.T) {
	s := fresh(t)
	s.send("run echo one >> ledger ; run echo two >> ledger ; run echo three >> ledger")
	s.choose("y")
	s.sees("approved")
	s.choose("n")
	s.sees("rejected")
	right, left := tea.Key{Code: tea.KeyRight}, tea.Key{Code: tea.KeyLeft}
	s.press(right, right)
	s.sees("▸[e]dit")
	s.press(left, left)
	s.sees("▸[l]ater")
	s.press(right, enter)
	s.sees("> a prompt")
	if text, err := os.ReadFile(filepath.Join(s.chat.Dir, "ledger")); err != nil || string(text) != "one\nthree\n" {
		t.Errorf("the ledger has %q, %v", text, err)
	}
}

// TestTypingAheadAnswersNothing shows a question while the user types.
func TestTypingAheadAnswersNothing(t *testing.T) {
	s := fresh(t)
	var later []tea.Cmd
	s.after = func(_ time.Duration, cmd tea.Cmd) tea.Cmd { later = append(later, cmd); return nil }
	s.send("run echo one >> ledger")
	s.press(esc, enter, ctrlD)
	s.typed("all of it")
	s.press(enter)
	s.sees("Run this command?", "> all of it", "your line is kept")
	for _, cmd := range later {
		s.take(cmd())
	}
	s.typed(" and ears")
	s.sees("> all of it and ears", "enter keeps your line")
	if _, err := os.Stat(filepath.Join(s.chat.Dir, "ledger")); err == nil {
		t.Fatal("what was typed ahead allowed the command")
	}
	s.press(enter)
	s.sees("[a]pprove")
	s.choose("a")
	s.sees("approved", "> all of it and ears")
	if text, err := os.ReadFile(filepath.Join(s.chat.Dir, "ledger")); err != nil || string(text) != "one\n" {
		t.Errorf("the ledger has %q, %v", text, err)
	}
	s.state = running
	s.typed(", then this")
	s.press(enter)
	s.sees("working; ctrl+c stops it\n> all of it and ears, then this")
}

// broken is a chat whose runs send some text and then end with an error.
type broken struct {
	Chat
	events []agent.Event
	err    error
}

func (b broken) Stream(context.Context, agent.Input) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		for _, e := range b.events {
			if !yield(e, nil) {
				return
			}
		}
		yield(agent.Event{Kind: agent.EventError}, b.err)
	}
}

// TestAPromptThatWasNotRecordedComesBack ends a run before it records the prompt.
func TestAPromptThatWasNotRecordedComesBack(t *testing.T) {
	s := fresh(t)
	s.model.chat = broken{Chat: s.chat, err: segno.NewError(segno.KindCancelled, "chat", "", nil)}
	s.send("write a.txt: long thought")
	s.sees("> write a.txt: long thought", "stopped before the turn began")
	if strings.Contains(s.shows(), "is saved") {
		t.Errorf("it says that something was saved:\n%s", s.shows())
	}
	s.model.chat = s.chat
	s.press(enter)
	s.sees("wrote a.txt", "> a prompt")
}

// TestPartialTextStaysAfterStop stops an answer in its middle.
func TestPartialTextStaysAfterStop(t *testing.T) {
	s := fresh(t)
	s.model.chat = broken{Chat: s.chat, err: segno.Errorf(segno.KindBusy, "chat", "", "the line broke"),
		events: []agent.Event{{Kind: agent.EventText, Text: "fifty words "}, {Kind: agent.EventText, Text: "and more"}}}
	s.send("say much")
	if above := strings.Join(s.printed, "\n"); !strings.Contains(above, "fifty words and more …\n✗ chat: the line broke") {
		t.Errorf("above stands\n%s", above)
	}
}

// TestTwoChatsOnOneSession checks that a chat shows the events of the other one at the right
// position, and does not report a running turn as unfinished.
func TestTwoChatsOnOneSession(t *testing.T) {
	store, dir := memory.New(time.Now), t.TempDir()
	one, two := open(t, store, dir, "s"), open(t, store, dir, "s")
	one.send("say one")
	two.send("say two")
	one.send("say three")
	if above := strings.Join(one.printed, "\n"); !strings.Contains(above, "> say one\none\n\n> say two\ntwo\n> say three\nthree\n") {
		t.Errorf("above stands\n%s", above)
	}
	one.take(statusMsg{status: chat.Status{Session: "s", Status: agent.Status{Phase: agent.PhaseRunning}}})
	one.settle()
	one.sees("another process is running this session")
}

func TestASmallScreenHasAllAnswers(t *testing.T) {
	s := fresh(t)
	s.take(tea.WindowSizeMsg{Width: 20, Height: 20})
	s.send("run echo one")
	s.sees("[r]eject", "[l]ater")
}

func TestCtrlZSuspends(t *testing.T) {
	s := fresh(t)
	if _, ok := s.key(tea.KeyPressMsg(tea.Key{Code: 'z', Mod: tea.ModCtrl}))().(tea.SuspendMsg); !ok {
		t.Error("ctrl+z does not suspend")
	}
}

// TestAPasteIsSeen pastes a few lines, and more lines than there is room for.
func TestAPasteIsSeen(t *testing.T) {
	s := fresh(t)
	s.take(tea.PasteMsg{Content: "one\ntwo\nthree\nfour"})
	s.settle()
	s.sees("> one\n  two\n  three\n  four\n session")
	s.press(ctrlC)
	s.take(tea.PasteMsg{Content: strings.Repeat("filler\n", 50) + "last"})
	s.settle()
	s.sees(strings.Repeat("  filler\n", 6) + "  last\n session")
	s.press(ctrlC)
	s.take(tea.PasteMsg{Content: strings.Repeat("word ", 40)})
	s.settle()
	if n := strings.Count(s.View().Content, "word"); n != 40 {
		t.Errorf("%d words of 40 are seen:\n%s", n, s.View().Content)
	}
}
