package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/dalsegno/segno/internal/proxy/acp"
)

// role returns the function of a child process that this program starts: the agent, a relay in
// the place of segno, or a use of an archive.
func role(args []string) (func() error, bool) {
	switch {
	case len(args) == 1 && args[0] == "parrot":
		return func() error { return parrot(os.Stdin, os.Stdout) }, true
	case len(args) > 2 && args[0] == "relay" && args[1] == "--":
		return func() error { return relay(args[2], args[3:]) }, true
	case len(args) > 2 && args[0] == "archive":
		return func() error { return useArchive(args[1], args[2:]) }, true
	case len(args) == 3 && args[0] == "fleetworker":
		return func() error { return fleetWorker(args[1], args[2] == "prints") }, true
	case len(args) == 3 && args[0] == "riverworker":
		return func() error { return riverWorker(args[1], args[2] == "prints") }, true
	}
	return nil, false
}

// relay runs a command and copies bytes in both directions, the least that a process in
// between can do.
func relay(name string, args []string) error {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(in, os.Stdin) // a broken pipe means that the agent ended, which Wait reports
		in.Close()
	}()
	if _, err := io.Copy(os.Stdout, out); err != nil {
		return err
	}
	return cmd.Wait()
}

// parrot is an agent that answers at once. A method, or the text of a prompt, is its command:
//
//	_x/echo    answer with the params
//	_x/say     say forty bytes
//	"hold"     leave the turn open until _x/release
//	"say N"    say N updates, a tool call and its result among every hundred
//	else       end the turn
func parrot(stdin io.Reader, stdout io.Writer) error {
	in, out := acp.NewReader(stdin), acp.NewWriter(stdout)
	held := ""
	for {
		line, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		m, err := acp.Parse(line)
		if err != nil {
			return err
		}
		answer := `{"stopReason":"end_turn"}`
		switch m.MethodName() {
		case "initialize":
			answer = `{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"parrot","version":"1"}}`
		case "session/new":
			answer = `{"sessionId":"` + parrotSession + `"}`
		case "_x/echo":
			answer = string(m.Params.Of(line))
		case "_x/say":
			err = out.Write(chunk)
		case "_x/release":
			err = out.Write(acp.Result(held, []byte(answer)))
		case "session/prompt":
			text := m.Text(m.Find(m.Params, "prompt"))
			m.Elements(m.Find(m.Params, "prompt"), func(block acp.Span) { text += m.Text(m.Find(block, "text")) })
			if text == "hold" {
				held = m.IDText()
				continue
			}
			err = say(out, text)
		}
		if err == nil && m.IsRequest() {
			err = out.Write(acp.Result(m.IDText(), []byte(answer)))
		}
		if err != nil {
			return err
		}
	}
}

// parrotSession is the one session of a parrot.
const parrotSession = "0b9d8f0c-6a1e-4f0e-9d53-0e5a3c1d2b4f"

// update returns the line of an update of the session.
func update(body string) []byte {
	return []byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"` + parrotSession + `","update":{` + body + `}}}` + "\n")
}

// chunk is an update of forty bytes of text.
var chunk = update(`"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + strings.Repeat("four", 10) + `"}`)

// say writes as many updates as a prompt asks for, each in a separate write.
func say(out *acp.Writer, prompt string) error {
	number, ok := strings.CutPrefix(prompt, "say ")
	if !ok {
		return nil
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	for i := range n {
		line := chunk
		switch i % 100 {
		case 98:
			line = update(fmt.Sprintf(`"sessionUpdate":"tool_call","toolCallId":"call_%d","title":"Read a file","kind":"read","status":"in_progress","rawInput":{"path":"/src/main.go"}`, i/100))
		case 99:
			line = update(fmt.Sprintf(`"sessionUpdate":"tool_call_update","toolCallId":"call_%d","status":"completed","rawOutput":"package main"`, i/100))
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// isUpdate reports whether say wrote a line.
func isUpdate(line []byte) bool {
	return bytes.Contains(line, []byte(`"agent_message_chunk"`)) || bytes.Contains(line, []byte(`"toolCallId"`))
}
