package preamble_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/preamble"
)

func TestEmptyThreadHasNoText(t *testing.T) {
	base := []segno.Node{{Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}}
	if text := preamble.FromCommits(base).Text(preamble.Options{}); text != "" {
		t.Errorf("of a thread that has only begun:\n%s", text)
	}
	if text := new(preamble.Builder).Text(preamble.Options{Open: &preamble.OpenTurn{Prompt: "the first prompt"}}); text != "" {
		t.Errorf("before the first turn:\n%s", text)
	}
}

func TestPreamblesAndNotesAreLeftOut(t *testing.T) {
	w := exampleThread()
	s := preamble.FromCommits(w.nodes)
	open := preamble.OpenTurn{Prompt: "go on", Reply: "I was"}
	told, asked := s.Text(preamble.Options{}), preamble.ContinuePrompt(open)
	for name, ours := range map[string]string{"preamble": told, "open preamble": s.Text(preamble.Options{Open: &open}), "continue": asked} {
		again := new(threadWriter).prompt("the task").note("segno", string(quoted(ours))).reply("yes").end()
		again.prompt(ours + "What is next?").reply("tea").end()
		again.turn++
		again.checkpoint(segno.Checkpoint{Kind: segno.CheckpointTurn, Prompt: ours + "And then?"})
		text := preamble.FromCommits(again.nodes).Text(preamble.Options{})
		if strings.Contains(text, "git push") || strings.Count(text, "needs a comment") != 1 || !strings.Contains(text, "“What is next?”") || !strings.Contains(text, "“And then?”") {
			t.Errorf("an earlier %s enters:\n%s", name, text)
		}
	}
	for _, prompt := range []string{"", "hello", told[:100], "I read this: " + told} {
		if got := preamble.StripPreamble(prompt); got != prompt {
			t.Errorf("of %.40q the user is taken to have said %.40q", prompt, got)
		}
	}
}

func TestTurnsSayHowTheyEnded(t *testing.T) {
	for _, c := range []struct {
		name string
		line *threadWriter
		want string
	}{
		{"a reply", new(threadWriter).prompt("go").end().prompt("a").reply("b").reply("c").end(), "The user said “a”.\nYou replied:\n> b\n>\n> c\n"},
		{"cut off", new(threadWriter).prompt("go").end().prompt("a").reply("b").interrupted(), "The user said “a”.\nYou were interrupted before you had finished. You had begun to say:\n> b\n"},
		{"cut off in silence", new(threadWriter).prompt("go").end().prompt("a").interrupted(), "The user said “a”.\nYou were interrupted before you had finished.\n"},
		{"cut off at work", new(threadWriter).prompt("go").end().prompt("a").call("Bash", `{"command":"x"}`, `{"response":""}`).interrupted(),
			"The user said “a”.\n- You ran “x” with Bash.\nYou were interrupted before you had finished.\n"},
		{"never ended", new(threadWriter).prompt("go").end().prompt("a").prompt("b").reply("c").end(), "The user said “a”.\nYou were interrupted before you had finished.\n\nThe user said “b”.\nYou replied:\n> c\n"},
		{"without a word, before one with", new(threadWriter).prompt("go").end().prompt("a").reply("b").end().prompt("").end().prompt("c").reply("d").end(),
			"The user said “a”.\nYou replied:\n> b\n\nThe user said “c”.\nYou replied:\n> d\n"},
		{"known by its checkpoint alone", new(threadWriter).checkpoint(segno.Checkpoint{Kind: segno.CheckpointTurn, Prompt: "go"}), "The user said “go”.\n"},
	} {
		if text := preamble.FromCommits(c.line.nodes).Text(preamble.Options{}); !strings.Contains(text, "\n"+c.want+"\n") {
			t.Errorf("%s: want\n%s\nin\n%s", c.name, c.want, text)
		}
	}
}

func TestLaterWordsOfTheTaskAreIncluded(t *testing.T) {
	w := new(threadWriter).prompt("the task")
	w.add(message("user", "and be quick"))
	text := preamble.FromCommits(w.reply("yes").end().nodes).Text(preamble.Options{})
	if want := "The user said:\n> the task\n>\n> and be quick\nYou replied:\n> yes\n"; !strings.Contains(text, want) {
		t.Errorf("want\n%s\nin\n%s", want, text)
	}
}

func TestNewestPlanCounts(t *testing.T) {
	w := new(threadWriter).prompt("go").note("plan", `[{"content":"an old point","status":"pending"}]`)
	w.call("TodoWrite", `{"todos":[{"content":"bake","status":"completed"},{"content":"eat","status":"in_progress"},{"content":"wash up","status":"pending"}]}`, `{"response":{}}`).end()
	text := preamble.FromCommits(w.nodes).Text(preamble.Options{})
	if want := "Of the 3 points on your list of things to do, these are open:\n- “eat”, begun\n- “wash up”\n\n"; !strings.Contains(text, want) || strings.Contains(text, "an old point") {
		t.Errorf("want\n%s\nin\n%s", want, text)
	}
	w.prompt("on").note("plan", `[{"content":"eat","status":"completed"}]`).end()
	if text := preamble.FromCommits(w.nodes).Text(preamble.Options{}); strings.Contains(text, "list of things") {
		t.Errorf("all is done, and it is told:\n%s", text)
	}
}

func TestRestoreIsAmongTheEffects(t *testing.T) {
	w := new(threadWriter).prompt("go").call("Write", `{"file_path":"a"}`, `{"response":""}`).end()
	w.checkpoint(segno.Checkpoint{Kind: segno.CheckpointRestore, Label: "restore t1 --files"})
	text := preamble.FromCommits(w.nodes).Text(preamble.Options{})
	if want := "- You wrote “a” with Write.\n- Here the user restored files as they were before, by “restore t1 --files”; the record above may be out of date.\n"; !strings.Contains(text, want) {
		t.Error(text)
	}
}

func TestEveryPromptOfManyTurnsIsIncluded(t *testing.T) {
	w := new(threadWriter)
	for i := range 500 {
		w.prompt(fmt.Sprintf("prompt %d %s", i, strings.Repeat("and more ", 200))).reply(fmt.Sprintf("reply %d %s", i, strings.Repeat("so it is ", 200))).end()
	}
	text := preamble.FromCommits(w.nodes).Text(preamble.Options{})
	for _, want := range []string{"> prompt 0 ", "> prompt 499 ", "> reply 499 ", "> prompt 498 ", "These were the turns, oldest first."} {
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

// threadWithFacts returns a thread of 1,000 turns whose session is lost ten times. After each loss,
// the next prompt follows the preamble of that moment. Prompts and effects of the turns contain the
// facts that it returns.
func threadWithFacts() (w *threadWriter, facts []string) {
	w = new(threadWriter)
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
			w.call("Write", encode(map[string]string{"file_path": file, "content": strings.Repeat("listen\n", 100)}), `{"response":{"filePath":"x"}}`)
		}
		w.reply("Noted. " + strings.Repeat("I keep that in mind. ", 20)).end()
	}
	return w, facts
}

func TestEveryFactSurvivesTenLosses(t *testing.T) {
	w, facts := threadWithFacts()
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

func TestAsAttachment(t *testing.T) {
	w := new(threadWriter).prompt("the message that follows is it").reply("done").end().prompt("the open one")
	w.intent("Bash", `{"command":"git push"}`)
	open := preamble.OpenTurn{Prompt: "the open one", Reply: "I am"}
	for name, how := range map[string]preamble.Options{"ended": {}, "open": {Open: &open}} {
		before := preamble.FromCommits(w.nodes).Text(how)
		text := preamble.AsAttachment("\n" + before + "\n\nand a note")
		if !strings.Contains(before, "The message that follows is") || strings.Contains(text, "The message that follows is") ||
			!strings.Contains(text, "The message that this comes with is") {
			t.Errorf("%s, it says\n%s", name, text)
		}
		if !strings.Contains(text, "“the message that follows is it”") || !strings.HasSuffix(text, "\n\nand a note") {
			t.Errorf("%s, what was quoted or noted is not as it was:\n%s", name, text)
		}
	}
}

// TestAnEmptyResultIsNoAnswer has calls whose results have no text. The preamble names their effects, but does not
// claim that a tool answered.
func TestAnEmptyResultIsNoAnswer(t *testing.T) {
	const hook, update = `{"command":"touch a"}`, `{"title":"touch a","kind":"execute","input":{"command":"touch a"}}`
	for _, c := range []struct{ input, result string }{
		{hook, `{"response":""}`}, {hook, `{"response":{"stdout":"","stderr":""}}`}, {hook, `{"response":" \n"}`},
		{update, `{"status":"completed","content":[{"type":"content","content":{"type":"text","text":""}}]}`},
		{update, `{"status":"completed","content":[]}`}, {update, `{"status":"completed"}`},
	} {
		w := new(threadWriter).prompt("go").call("Bash", c.input, c.result).reply("done").end()
		text := preamble.FromCommits(w.nodes).Text(preamble.Options{})
		if want := "- You ran “touch a” with Bash.\nYou replied"; !strings.Contains(text, want) {
			t.Errorf("%s: want\n%s\nin\n%s", c.result, want, text)
		}
	}
}
