package generation_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/world/company"
)

// TestStoryIsKept stops a generation and continues it. The directory of each attempt has the story of its world. A
// resumed attempt has the story from the beginning.
func TestStoryIsKept(t *testing.T) {
	r := newRig(t)
	c := r.config(1, 8)
	c.Story = company.Story
	ctx, cancel := context.WithCancel(t.Context())
	r.on = func(e generation.Event) {
		if e.Kind == generation.EventTick && e.Tick == 4 {
			cancel()
		}
	}
	_ = generation.New(c).Run(ctx) // the test stops the run, so it returns an error
	r.on = nil
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, second := r.story("village-g001-a1"), r.story("village-g001-a2")
	if !strings.HasPrefix(second, first) || strings.Count(first, "closes the day") != 1 || strings.Count(second, "closes the day") != 2 ||
		!strings.HasPrefix(first, "day 1  night      Ada opens a branch") {
		t.Errorf("the stories are\n%s\n%s", first, second)
	}
	for _, e := range r.find(generation.EventStory) {
		if !strings.Contains(second, e.Text+"\n") {
			t.Errorf("%q was told and not kept", e.Text)
		}
	}
}

// TestWordsAreKept keeps the last words of the agents in a world without a story. It removes characters that control a
// terminal.
func TestWordsAreKept(t *testing.T) {
	r := newRig(t)
	r.kind.more = func(int) string { return `printf 'it is \033[2Jquiet\n'` }
	if err := generation.New(r.config(1, 2)).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `tick 0  Ada: it is \x1b[2Jquiet` + "\n" + `tick 1  Ada: it is \x1b[2Jquiet` + "\n"
	if story := r.story("village-g001-a1"); story != want {
		t.Errorf("the story is %q, want %q", story, want)
	}
}

func (r *rig) story(attempt string) string {
	r.Helper()
	data, err := os.ReadFile(r.path("village/attempts", attempt, "story.txt"))
	if err != nil {
		r.Fatal(err)
	}
	return string(data)
}
