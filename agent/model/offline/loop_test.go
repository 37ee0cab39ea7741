package offline_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/store/memory"
)

// deep returns the tools of a deep agent, in a separate directory.
func deep(t *testing.T) []agent.Tool {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return tool.Deep(dir, root)
}

// turn runs one turn. It returns its durable events as text, and the last event.
func turn(t *testing.T, a *agent.Agent, in agent.Input) (told []string, last agent.Event) {
	t.Helper()
	for ev, err := range a.Stream(t.Context(), in) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev.Kind {
		case tool.EventFileWritten, agent.EventSummarized:
			told = append(told, strings.TrimSpace(string(ev.Kind)+" "+ev.Path))
		case tool.EventExecFinish:
			told = append(told, fmt.Sprintf("%s %s %d", ev.Kind, ev.Text, *ev.Code))
		case agent.EventDone:
			last = ev
		}
	}
	return told, last
}

func TestALongPromptIsCarriedOutOnceThroughSummaries(t *testing.T) {
	a := agent.New(agent.Config{Model: offline.New(), Store: memory.New(time.Now), Tools: deep(t),
		Summarize: agent.Summarize{Above: 250, Keep: 3}})
	var lines, want []string
	for i := range 20 {
		lines = append(lines, fmt.Sprintf("write f%02d: text %d", i, i))
		want = append(want, fmt.Sprintf("file-written f%02d", i))
	}
	lines = append(lines, "remember the animal is a cat", "say bye")
	told, last := turn(t, a, agent.Input{Thread: "t", Prompt: strings.Join(lines, "\n")})
	var written []string
	summaries := 0
	for _, s := range told {
		if s == string(agent.EventSummarized) {
			summaries++
			continue
		}
		written = append(written, s)
	}
	if strings.Join(written, "\n") != strings.Join(want, "\n") || summaries < 2 {
		t.Errorf("%d summaries, written:\n%s", summaries, strings.Join(written, "\n"))
	}
	if !strings.Contains(last.Text, "bye") || !strings.Contains(last.Text, "wrote f19") {
		t.Errorf("the end is %q", last.Text)
	}
	if _, last = turn(t, a, agent.Input{Thread: "t", Prompt: "recall the animal"}); last.Text != "the animal is a cat" {
		t.Errorf("after the summaries: %q", last.Text)
	}
}

func TestACommandThatFailsDidRun(t *testing.T) {
	a := agent.New(agent.Config{Model: offline.New(), Tools: deep(t)})
	_, last := turn(t, a, agent.Input{Prompt: "run exit 3\nread nothing"})
	if last.Text != "ran `exit 3`: (no output) exit code 3; could not read nothing: nothing: there is no such file" &&
		!strings.HasPrefix(last.Text, "ran `exit 3`: (no output) exit code 3; could not read nothing: ") {
		t.Errorf("%q", last.Text)
	}
}
