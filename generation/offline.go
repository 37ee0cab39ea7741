package generation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

// KindOffline is the kind of agents that need no model.
const KindOffline = "offline"

// Offline is a [Kind] of scripted agents without a model. They remember what they did in files of their
// workspace, and keep no conversation.
type Offline struct {
	// Command runs [PlayTurn].
	Command []string
}

// Prepare implements [Kind].
func (Offline) Prepare(context.Context, Place) error { return nil }

// Turn implements [Kind].
func (o Offline) Turn(Place, Turn) Command { return Command{Args: o.Command} }

// Session implements [Kind].
func (Offline) Session(context.Context, Place) (segno.Transcript, segno.Source, error) {
	return nil, segno.Source{}, nil
}

// memory is a line of EPISODIC_MEMORY.jsonl.
type memory struct {
	Time    json.RawMessage `json:"time,omitempty"`
	Action  json.RawMessage `json:"action"`
	Refused string          `json:"refused,omitempty"`
}

// PlayTurn is one turn of an [Offline] agent: it observes the world at WORLD_URL, acts once, remembers
// its action in dir, and prints it.
func PlayTurn(ctx context.Context, player world.Player, dir string, getenv func(string) string, out io.Writer) error {
	c := playClient{url: getenv("WORLD_URL"), session: getenv("WORLD_SESSION")}
	seen, err := c.call(ctx, http.MethodGet, "/observe", nil)
	if err != nil {
		return err
	}
	var now struct {
		Time json.RawMessage `json:"time"`
	}
	_ = json.Unmarshal(seen, &now) // a world may have no time in its observations
	action, err := player(seen)
	if err != nil {
		return err
	}
	done := memory{Time: now.Time, Action: action}
	if _, err = c.call(ctx, http.MethodPost, "/act", action); segno.KindOf(err) == segno.KindRefused {
		done.Refused, err = err.Error(), nil
	}
	if err != nil {
		return err
	}
	if done.Refused != "" {
		fmt.Fprintf(out, "%s: %s\n", action, done.Refused) // the output is for people
	} else {
		fmt.Fprintf(out, "%s\n", action)
	}
	return remember(dir, done)
}

// remember adds an action to the memory in a workspace.
func remember(dir string, m memory) (err error) {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "EPISODIC_MEMORY.jsonl"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(append(line, '\n'))
	return err
}

// playClient acts in a world over HTTP.
type playClient struct{ url, session string }

func (c playClient) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Session", c.session)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode == http.StatusUnprocessableEntity:
		var refusal struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(data, &refusal) // then the text is empty
		return nil, segno.Errorf(segno.KindRefused, "act", "", "%s", refusal.Error)
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, data)
	}
	return data, nil
}
