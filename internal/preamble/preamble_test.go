package preamble_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/preamble"
)

func TestThereIsNothingToTellOfNothing(t *testing.T) {
	base := []segno.Node{{Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}}
	if text := preamble.FromCommits(base).Text(preamble.Options{}); text != "" {
		t.Errorf("of a thread that has only begun:\n%s", text)
	}
	w := new(line).prompt("the first prompt, not answered yet")
	if text := preamble.FromCommits(w.nodes).Text(preamble.Options{Open: &preamble.OpenTurn{Turn: 1, Prompt: "the first prompt"}}); text != "" {
		t.Errorf("before the first turn:\n%s", text)
	}
}

func TestATurnThatIsOpenIsNotToldAsPast(t *testing.T) {
	w := new(line).prompt("the task").says("done").end().prompt("the open one")
	id := w.begins("Bash", `{"command":"git push"}`)
	w.begins("Bash", `{"command":"only in the line"}`)
	open := preamble.OpenTurn{Turn: 2, Prompt: "the open one", Reply: "I am", Entries: []segno.Entry{
		{Kind: segno.EntryIntent, ID: id, Name: "Bash", Body: []byte(`{"command":"git push"}`)},
		{Kind: segno.EntryResult, ID: id, Name: "Bash", Body: []byte(`{"response":"pushed"}`)},
	}}
	text := preamble.FromCommits(w.nodes).Text(preamble.Options{Open: &open})
	for want, times := range map[string]int{"the open one": 0, "“git push”": 1, "- You ran “git push”": 1, "“only in the line”": 1, "\n> I am\n": 1, "The message that follows is the one you were at work on": 1} {
		if got := strings.Count(text, want); got != times {
			t.Errorf("%q is told %d times, want %d:\n%s", want, got, times, text)
		}
	}
}

func TestWhatIsOursNeverEnters(t *testing.T) {
	w := release()
	s := preamble.FromCommits(w.nodes)
	open := preamble.OpenTurn{Prompt: "go on", Reply: "I was"}
	told, asked := s.Text(preamble.Options{}), preamble.ContinuePrompt(open)
	for name, ours := range map[string]string{"preamble": told, "open preamble": s.Text(preamble.Options{Open: &open}), "continue": asked} {
		again := new(line).prompt("the task").note("segno", string(quoted(ours))).says("yes").end()
		again.prompt(ours + "What is next?").says("tea").end()
		again.turn++
		again.checkpoint(segno.Checkpoint{Kind: segno.CheckpointTurn, Prompt: ours + "And then?"})
		text := preamble.FromCommits(again.nodes).Text(preamble.Options{})
		if strings.Contains(text, "git push") || strings.Count(text, "needs a comment") != 1 || !strings.Contains(text, "\n> What is next?\n") || !strings.Contains(text, "\n> And then?\n") {
			t.Errorf("an earlier %s enters:\n%s", name, text)
		}
	}
	for _, prompt := range []string{"", "hello", told[:100], "I read this: " + told} {
		if got := preamble.StripPreamble(prompt); got != prompt {
			t.Errorf("of %.40q the user is taken to have said %.40q", prompt, got)
		}
	}
}

func TestTurnsAreToldAsTheyEnded(t *testing.T) {
	for _, c := range []struct {
		name string
		line *line
		want string
	}{
		{"a reply", new(line).prompt("go").end().prompt("a").says("b").says("c").end(), "The user said:\n> a\nYou replied:\n> b\n>\n> c\n"},
		{"cut off", new(line).prompt("go").end().prompt("a").says("b").cutOff(), "The user said:\n> a\nYou were interrupted before you had finished. You had begun to say:\n> b\n"},
		{"cut off in silence", new(line).prompt("go").end().prompt("a").cutOff(), "The user said:\n> a\nYou were interrupted before you had finished.\n"},
		{"cut off at work", new(line).prompt("go").end().prompt("a").does("Bash", `{"command":"x"}`, `{"response":""}`).cutOff(),
			"The user said:\n> a\nYou were interrupted before you had finished. What you had done by then is told above and counts.\n"},
		{"never ended", new(line).prompt("go").end().prompt("a").prompt("b").says("c").end(), "The user said:\n> a\nYou were interrupted before you had finished.\n\nThe user said:\n> b\nYou replied:\n> c\n"},
		{"without a word, before one with", new(line).prompt("go").end().prompt("a").says("b").end().prompt("").end().prompt("c").says("d").end(),
			"The user said:\n> a\nYou replied:\n> b\n\nThe user said:\n> c\nYou replied:\n> d\n"},
		{"known by its checkpoint alone", new(line).checkpoint(segno.Checkpoint{Kind: segno.CheckpointTurn, Prompt: "go"}), "No words of yours in reply are on record.\n"},
	} {
		if text := preamble.FromCommits(c.line.nodes).Text(preamble.Options{}); !strings.Contains(text, "\n"+c.want+"\n") {
			t.Errorf("%s: want\n%s\nin\n%s", c.name, c.want, text)
		}
	}
}

func TestWhatTheUserAddsToTheTaskIsTold(t *testing.T) {
	w := new(line).prompt("the task")
	w.add(message("user", "and be quick"))
	text := preamble.FromCommits(w.says("yes").end().nodes).Text(preamble.Options{})
	if want := "The user said:\n> the task\n>\n> and be quick\nYou replied:\n> yes\n"; !strings.Contains(text, want) {
		t.Errorf("want\n%s\nin\n%s", want, text)
	}
}

func TestTheNewestListIsTheOneThatIsOpen(t *testing.T) {
	w := new(line).prompt("go").note("plan", `[{"content":"an old point","status":"pending"}]`)
	w.does("TodoWrite", `{"todos":[{"content":"bake","status":"completed"},{"content":"eat","status":"in_progress"},{"content":"wash up","status":"pending"}]}`, `{"response":{}}`).end()
	text := preamble.FromCommits(w.nodes).Text(preamble.Options{})
	if want := "Of the 3 points on your list of things to do, these are open:\n- “eat”, begun\n- “wash up”\n\n"; !strings.Contains(text, want) || strings.Contains(text, "an old point") {
		t.Errorf("want\n%s\nin\n%s", want, text)
	}
	w.prompt("on").note("plan", `[{"content":"eat","status":"completed"}]`).end()
	if text := preamble.FromCommits(w.nodes).Text(preamble.Options{}); strings.Contains(text, "list of things") {
		t.Errorf("all is done, and it is told:\n%s", text)
	}
}

func TestARestoreIsToldAmongTheEffects(t *testing.T) {
	w := new(line).prompt("go").does("Write", `{"file_path":"a"}`, `{"response":""}`).end()
	w.checkpoint(segno.Checkpoint{Kind: segno.CheckpointRestore, Label: "restore t1 --files"})
	text := preamble.FromCommits(w.nodes).Text(preamble.Options{})
	if want := "- You wrote “a” with Write.\n- Here the user restored files as they were before, by “restore t1 --files”; what is told above may not stand any more.\n"; !strings.Contains(text, want) {
		t.Error(text)
	}
}

func TestEveryPromptOfManyTurnsIsTold(t *testing.T) {
	w := new(line)
	for i := range 500 {
		w.prompt(fmt.Sprintf("prompt %d %s", i, strings.Repeat("and more ", 200))).says(fmt.Sprintf("reply %d %s", i, strings.Repeat("so it is ", 200))).end()
	}
	text := preamble.FromCommits(w.nodes).Text(preamble.Options{})
	for _, want := range []string{"> prompt 0 ", "> prompt 499 ", "> reply 499 ", "> prompt 497 ", "These were the turns, oldest first."} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	for i := range 500 {
		if !strings.Contains(text, fmt.Sprintf("prompt %d ", i)) {
			t.Errorf("the text lacks prompt %d", i)
		}
	}
	if least := 3 * preamble.DefaultBudget; len(text) < least {
		t.Errorf("%d bytes, where there is more to tell than fits", len(text))
	}
}

// planted returns a thread of 1,000 turns whose session is lost ten times: each time the
// next prompt follows the preamble of that moment. Turns state facts in prompts and in
// effects; facts lists them.
func planted() (w *line, facts []string) {
	w = new(line)
	for i := range 1000 {
		fact := fmt.Sprintf("port %d is for host-%d", 20_000+i, i)
		facts = append(facts, fact)
		said := "Note that " + fact
		if i > 0 && i%100 == 0 {
			said = preamble.FromCommits(w.nodes).Text(preamble.Options{}) + said
		}
		w.prompt(said)
		if i%10 == 0 {
			file := fmt.Sprintf("/w/hosts/host-%d.conf", i)
			facts = append(facts, file)
			w.does("Write", encode(map[string]string{"file_path": file, "content": strings.Repeat("listen\n", 100)}), `{"response":{"filePath":"x"}}`)
		}
		w.says("Noted. " + strings.Repeat("I keep that in mind. ", 20)).end()
	}
	return w, facts
}

func TestEveryFactSurvivesTenLosses(t *testing.T) {
	w, facts := planted()
	text := preamble.FromCommits(w.nodes).Text(preamble.Options{})
	checkText(t, text, 0)
	lost := 0
	for _, fact := range facts {
		if !strings.Contains(text, fact) {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d facts are lost in %d bytes", lost, len(facts), len(text))
	}
}

func TestBesideItsPromptItDoesNotPrecedeIt(t *testing.T) {
	w := new(line).prompt("the message that follows is it").says("done").end().prompt("the open one")
	w.begins("Bash", `{"command":"git push"}`)
	open := preamble.OpenTurn{Turn: 2, Prompt: "the open one", Reply: "I am"}
	for name, how := range map[string]preamble.Options{"ended": {}, "open": {Open: &open}} {
		before := preamble.FromCommits(w.nodes).Text(how)
		text := preamble.AsAttachment("\n" + before + "\n\nand a note")
		if !strings.Contains(before, "The message that follows is") || strings.Contains(text, "The message that follows is") ||
			!strings.Contains(text, "The message that this comes with is") {
			t.Errorf("%s, it says\n%s", name, text)
		}
		if !strings.Contains(text, "> the message that follows is it\n") || !strings.HasSuffix(text, "\n\nand a note") {
			t.Errorf("%s, what was quoted or noted is not as it was:\n%s", name, text)
		}
	}
}
