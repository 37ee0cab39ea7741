package acptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno/internal/proxy/acp"
)

// takeFault reports whether the fault of a step happens now, and counts it.
func (t *turn) takeFault(i int, s Step) (bool, error) {
	if s.Times == 0 {
		return true, nil
	}
	name := filepath.Join(t.Dir, fmt.Sprintf("fault-%s-%d", t.script.key, i))
	fi, err := os.Stat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err == nil && fi.Size() >= int64(s.Times) {
		return false, nil
	}
	return true, appendTo(name, []byte("x"))
}

// fault executes a fault step that is not a tool call.
func (t *turn) fault(s Step) error {
	switch {
	case s.Exit != nil:
		os.Exit(*s.Exit)
	case s.Kill:
		return t.die("kill")
	case s.Drop:
		return t.die("drop")
	case s.Error != nil:
		e := new(acp.Error)
		if err := json.Unmarshal(s.Error, e); err != nil {
			return err
		}
		return e
	case s.Fail != "":
		return t.fail(s.Fail)
	case s.Empty:
		t.usage = json.RawMessage(`{"inputTokens":50,"outputTokens":0,"totalTokens":50}`)
		return errEnded("end_turn")
	case s.Evict:
		t.agent.forget(t.session)
	case s.Forget:
		t.agent.forget(t.session)
		return os.Remove(t.session.file)
	case s.Hang:
		<-t.ctx.Done()
		return t.ctx.Err()
	case s.Deaf:
		select {}
	}
	return nil
}

// die ends the process, or its stdout. It returns only if that fails.
func (t *turn) die(how string) error {
	switch how {
	case "exit":
		os.Exit(1)
	case "drop":
		t.hangUp()
	case "", "kill":
		return killSelf()
	default:
		return fmt.Errorf("acptest: no way to die: %s", how)
	}
	select {}
}
