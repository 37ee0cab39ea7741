package failure

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/proxy/acp"
)

// answer is one request of a recorded conversation, and its end.
type answer struct {
	Case string
	Outcome
}

// replay parses the conversations with one agent: "# case", then the client's messages
// after "> " and the agent's after "< ", and EOF at the end of the agent's output.
func replay(t *testing.T, name string) []answer {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := &conversation{t: t}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch mark, rest, _ := strings.Cut(lines.Text(), " "); mark {
		case "#":
			c.begin(rest)
		case "EOF":
			c.end()
		case ">":
			m := parse(t, rest)
			c.turn, c.open = Outcome{Method: m.MethodName(), OutputTokens: -1, Fresh: c.fresh}, m.IDText()
		case "<":
			c.addAgentMessage(parse(t, rest))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return c.answers
}

type conversation struct {
	t              *testing.T
	name           string
	agent, version string
	open           string // the id of the request under way
	fresh          bool
	turn           Outcome
	answers        []answer
}

func (c *conversation) begin(name string) {
	c.end()
	c.name, c.agent, c.version, c.fresh = name, "", "", false
}

// end handles the end of the agent's output.
func (c *conversation) end() {
	if c.open != "" {
		c.turn.Exited = true
		c.addAnswer()
	}
}

func (c *conversation) addAnswer() {
	c.turn.Agent, c.turn.Version = c.agent, c.version
	c.answers = append(c.answers, answer{c.name, c.turn})
	c.open = ""
}

func (c *conversation) addAgentMessage(m acp.Message) {
	if m.IsNotification() {
		c.addUpdate(m)
		return
	}
	if m.IDText() != c.open {
		return
	}
	o := &c.turn
	if o.Err = m.Err(); o.Err == nil {
		if name := m.Text(m.Find(m.Result, "agentInfo", "name")); name != "" {
			c.agent, c.version = name, m.Text(m.Find(m.Result, "agentInfo", "version"))
		}
		c.fresh = o.Method != "session/prompt"
		o.Stop = m.Text(m.Find(m.Result, "stopReason"))
		air := m.Find(m.Result, "_meta", "jetbrains", "air", "sessionFailure")
		o.Category, o.Title = m.Text(m.Find(air, "category")), m.Text(m.Find(air, "title"))
		if err := m.Decode(m.Find(m.Result, "usage", "outputTokens"), &o.OutputTokens); err != nil {
			c.t.Fatal(err)
		}
	}
	c.addAnswer()
}

func (c *conversation) addUpdate(m acp.Message) {
	o := &c.turn
	o.Updates++
	update := m.Find(m.Params, "update")
	switch m.Text(m.Find(update, "sessionUpdate")) {
	case "agent_message_chunk":
		o.Text += m.Text(m.Find(update, "content", "text"))
	case "tool_call":
		o.Tools++
	case "session_info_update":
		if status := m.Text(m.Find(update, "_meta", "codex", "threadStatus", "type")); status != "" {
			o.SystemError = status == "systemError"
		}
	}
}

func parse(t *testing.T, line string) acp.Message {
	t.Helper()
	m, err := acp.Parse([]byte(line))
	if err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return m
}
