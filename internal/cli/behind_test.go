package cli

import (
	"strings"
	"testing"
)

// TestAgentBehindTheProxyForks forks in both ways there are: each line goes on in the
// directory, knows what was said before, and is a thread of it; those of the agent are
// not listed beside.
func TestAgentBehindTheProxyForks(t *testing.T) {
	e := newEditor(t, "acp", "--", "segno", "agent")
	id := e.open("new", "")
	e.say(id, "remember the port is 8080\nwrite a.txt: one")
	if said := e.say(id, "/fork idea").Said(); strings.Contains(said, "not") {
		t.Errorf("/fork says %q", said)
	}
	if said := e.say(id, "write b.txt: two\nrecall the port").Said(); !strings.Contains(said, "the port is 8080") {
		t.Errorf("in the fork it said %q", said)
	}
	fork := e.open("fork", id)
	e.say(fork, "write c.txt: three\nremember the port is 9090")
	for session, want := range map[string]string{id: "8080", fork: "9090"} {
		if said := e.say(session, "recall the port").Said(); said != "the port is "+want {
			t.Errorf("in %s it said %q", session, said)
		}
	}
	if got := e.file("a.txt") + e.file("b.txt") + e.file("c.txt"); got != "onetwothree" {
		t.Errorf("the files have %q", got)
	}
	if threads := e.segno("threads"); strings.Count(threads, "\n") != 3 {
		t.Errorf("the directory's threads are\n%s", threads)
	}
	e.Kill()
	e.start()
	e.open("load", fork)
	if said := e.say(fork, "recall the port").Said(); said != "the port is 9090" {
		t.Errorf("loaded, the fork said %q", said)
	}
	for _, p := range e.Problems() {
		t.Error(p)
	}
}
