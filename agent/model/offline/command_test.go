package offline

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/dalsegno/segno/agent"
)

func FuzzParse(f *testing.F) {
	for _, line := range []string{"write a: b", "run a ; b ; read c", `call t {"a":" ; say "}`, "edit a: b -> c", "remember x is y", "ls", "İ x", "\xff", "grep a in b", " ; ; "} {
		f.Add(line)
	}
	specs := []agent.ToolSpec{{Name: "write_file"}, {Name: "execute"}, {Name: "write_todos"}, {Name: "final_answer"}}
	f.Fuzz(func(t *testing.T, prompt string) {
		cmds, unknown := parseLine(prompt)
		if unknown != "" && cmds != nil {
			t.Fatalf("%q is understood and is not", prompt)
		}
		a := answerTo(agent.Request{Messages: []agent.Message{agent.Text(prompt)}, Tools: specs})
		if len(a.text)+len(a.calls)+len(a.thinking) == 0 {
			t.Fatalf("%q gets no answer", prompt)
		}
		for _, c := range a.calls {
			if !json.Valid(c.Args) {
				t.Fatalf("%q: %s %s", prompt, c.Name, c.Args)
			}
		}
		if short := clip(prompt, 20); len(short) > 20 || utf8.ValidString(prompt) && !utf8.ValidString(short) {
			t.Fatalf("%q is clipped to %q", prompt, short)
		}
	})
}
